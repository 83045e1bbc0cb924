//! `volume-warden man`: prints manual pages.

use clap::{Args, Command, error::ErrorKind};
use clap_mangen::Man;
use std::io::{self, Write};

pub(super) const EXIT_CODES: &str = "Exit codes: 0 printed; 1 standard output could not be written; \
2 the command line is wrong, or there is no such command.";

/// `volume-warden man`
#[derive(Debug, Args)]
pub struct ManOptions {
    /// Command to print the page of [default: the program itself]
    command: Option<String>,
}

/// Prints the manual page, for `man -l -` or a file below `man1`.
///
/// # Errors
/// When there is no such command, or standard output cannot be written.
pub fn run(options: ManOptions, mut program: Command) -> anyhow::Result<()> {
    // `build` sets the full name of each subcommand, which the page shows.
    program.build();
    let page = match options.command {
        None => program,
        Some(name) => named(program, &name)?,
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    Ok(io::stdout().write_all(&text)?)
}

fn named(mut program: Command, name: &str) -> Result<Command, clap::Error> {
    if let Some(found) = program.find_subcommand(name) {
        return Ok(found.clone());
    }
    let message = format!("there is no command {name}");
    Err(program.error(ErrorKind::InvalidSubcommand, message))
}
