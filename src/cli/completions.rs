//! `volume-warden completions`

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use std::io::{self, Write};

/// `volume-warden completions`
#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// The shell that is to complete.
    shell: Shell,
}

/// Prints what makes the shell complete commands, flags and their values.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(options: CompletionsOptions, mut command: Command) -> anyhow::Result<()> {
    let name = command.get_name().to_owned();
    // Not straight to standard output: the generator panics where that is closed.
    let mut script = Vec::new();
    generate(options.shell, &mut command, &name, &mut script);
    let mut script = String::from_utf8(script)?;
    if options.shell == Shell::Bash {
        script = with_commands(&script, &name);
    }
    Ok(io::stdout().write_all(script.as_bytes())?)
}

/// clap issue 6421: where the program's name has a hyphen, bash finds nothing below a command, because the generator writes the name
/// in two ways. Here it is written in one.
fn with_commands(script: &str, name: &str) -> String {
    script.replace(&name.replace('-', "__subcmd__"), &name.replace('-', "__"))
}
