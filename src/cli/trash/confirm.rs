//! Asks the user to confirm a change.

use std::io::{self, Write as _};

pub(super) const QUESTION: &str = "Continue? [y/N] ";

/// Asks the question on standard output, and returns whether standard input answers yes.
///
/// # Errors
/// When the terminal cannot be used.
pub(super) fn confirmed() -> io::Result<bool> {
    print!("{QUESTION}");
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
