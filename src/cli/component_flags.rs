//! The flags that components add to `volume-warden run`.

use clap::{ArgMatches, Args, Command, FromArgMatches, error::Error};

/// What the command line says of them: each component reads its own, by [`crate::component::Shared::options`].
#[derive(Clone, Debug, Default)]
pub struct ComponentFlags(pub(super) ArgMatches);

/// The flags themselves are added with the list of components at hand: see [`super::command`].
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
