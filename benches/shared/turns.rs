//! Runs the parts of a benchmark in sequence.

use anyhow::{Context, Result};

/// The arguments: those that begin with a digit are sizes, the others are names of parts.
pub fn arguments() -> (Vec<String>, Vec<String>) {
    // Cargo passes flags of its own.
    let arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'));
    arguments.partition(|argument| argument.starts_with(|first: char| first.is_ascii_digit()))
}

/// A part of a benchmark.
pub trait Turn: Copy {
    /// The name of the part in the arguments and in the tables.
    fn name(self) -> &'static str;
}

/// Runs the parts listed in `names`, or all parts if `names` is empty.
pub async fn in_turn<T: Turn, O>(
    turns: impl IntoIterator<Item = T>,
    names: &[String],
    measure: impl AsyncFn(T) -> Result<O>,
) -> Result<Vec<(T, O)>> {
    let wanted = |turn: &T| names.is_empty() || names.iter().any(|name| name == turn.name());
    let mut outcomes = Vec::new();
    for turn in turns.into_iter().filter(wanted) {
        let outcome = measure(turn).await.with_context(|| turn.name())?;
        outcomes.push((turn, outcome));
    }
    Ok(outcomes)
}
