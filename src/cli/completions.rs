//! `volume-warden completions`: generates shell completions.

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use std::io::{self, Write};

pub(super) const EXIT_CODES: &str = "Exit codes: 0 printed; 1 standard output could not be written; \
2 the command line is wrong.";

/// `volume-warden completions`
#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// Shell to generate completions for.
    shell: Shell,
}

/// Prints a script that completes commands, flags and their values.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(options: CompletionsOptions, mut command: Command) -> anyhow::Result<()> {
    let name = command.get_name().to_owned();
    // The script is written to a buffer first: the generator panics if standard output is closed.
    let mut script = Vec::new();
    generate(options.shell, &mut command, &name, &mut script);
    let mut script = String::from_utf8(script)?;
    if options.shell == Shell::Bash {
        script = with_commands(&script, &name);
    }
    Ok(io::stdout().write_all(script.as_bytes())?)
}

/// Works around clap issue 6421: if the program's name has a hyphen, the generator spells it in
/// two ways, and bash completes nothing after a command. The result uses one spelling.
fn with_commands(script: &str, name: &str) -> String {
    script.replace(&name.replace('-', "__subcmd__"), &name.replace('-', "__"))
}
