//! Results on standard output.

use std::io::{self, ErrorKind, Write};

/// Lines, in colour only where somebody sees it. Whoever reads may have read enough: `| head` is no failure, and no end of the work.
///
/// # Errors
/// When it cannot be written, as to a full disk.
pub(super) fn print(text: &str) -> io::Result<()> {
    match writeln!(anstream::stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
