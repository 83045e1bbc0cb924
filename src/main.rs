//! The `volume-warden` binary.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    volume_warden::cli::Cli::parse().run()
}
