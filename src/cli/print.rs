//! Prints results on standard output, and errors on standard error.

use crate::plain::Plain;
use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
};

/// Prints lines, with colors only on a terminal. A closed pipe, as with `| head`, is not an error.
///
/// # Errors
/// When standard output cannot be written, for example on a full disk.
pub(super) fn print(text: &str) -> io::Result<()> {
    match writeln!(anstream::stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Prints an error or a warning on standard error, as one line.
pub(super) fn complain(sentence: impl Display) {
    eprintln!("volume-warden: {}", Plain(sentence));
}
