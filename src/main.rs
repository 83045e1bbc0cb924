//! The `volume-warden` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    volume_warden::cli::Cli::from_arguments().run()
}
