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
    print_while_read(text).map(|_| ())
}

/// Prints lines as [`print()`] does. Returns whether they may be read: after a closed pipe, nothing
/// that is printed is.
///
/// # Errors
/// As those of [`print()`].
pub(super) fn print_while_read(text: &str) -> io::Result<bool> {
    match writeln!(anstream::stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        done => done.map(|()| true),
    }
}

/// Prints a step of a command.
///
/// # Errors
/// When it cannot be printed.
pub(super) fn print_step(sentence: impl Display) -> anyhow::Result<()> {
    Ok(print(&Plain(sentence).to_string())?)
}

/// Keeps the first error of several prints: it records the result of another one, unless an earlier
/// one failed.
pub(super) fn keep_first_error(first: &mut io::Result<()>, next: io::Result<()>) {
    if first.is_ok() {
        *first = next;
    }
}

/// Prints an error or a warning on standard error, as one line. If standard error cannot be
/// written, nothing else can report it: the exit code still shows the result.
pub(super) fn print_error(sentence: impl Display) {
    let _ = writeln!(io::stderr(), "volume-warden: {}", Plain(sentence));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_line_that_is_printed_hides_no_error() {
        let mut first = Ok(());
        let error = |text: &str| Err(io::Error::other(text));
        for next in [Ok(()), error("a full disk"), Ok(()), error("a later one")] {
            keep_first_error(&mut first, next);
        }
        let kept = first.expect_err("a line was not printed");
        assert_eq!(kept.to_string(), "a full disk");
    }
}
