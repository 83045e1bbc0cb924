//! The exit code of a command of a user that could not read what it requires.

use crate::cli::print::print_error;
use std::process::ExitCode;

/// Exit code of a command if something that it requires could not be read, if there is no
/// usable kubeconfig, if it is unknown whether a write was stored, or if a restored claim is not
/// Bound in time.
pub(in crate::cli) const EXIT_UNKNOWN: u8 = 3;

/// Prints the error, and returns the exit code for something that could not be read, or for a write
/// whose outcome is unknown.
pub(in crate::cli) fn report_unknown(error: String) -> ExitCode {
    print_error(error);
    ExitCode::from(EXIT_UNKNOWN)
}
