//! The flags that components add to `volume-warden run`.

use clap::{ArgMatches, Args, Command, FromArgMatches, error::Error};

/// The parsed command line. Each component reads its own flags by
/// [`crate::component::Shared::options`].
#[derive(Clone, Debug, Default)]
pub struct ComponentFlags(pub(in crate::cli) ArgMatches);

/// Adds no flags: [`crate::cli::command`] adds them, because it knows the components.
impl Args for ComponentFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for ComponentFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0 = matches.clone();
        Ok(())
    }
}
