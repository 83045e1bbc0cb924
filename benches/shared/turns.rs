//! What a benchmark measures, one thing after another.

use anyhow::{Context, Result};

/// The arguments: what begins with a digit is a size, the rest are names of what to measure.
pub fn arguments() -> (Vec<String>, Vec<String>) {
    // Cargo adds flags of its own.
    let arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'));
    arguments.partition(|argument| argument.starts_with(|first: char| first.is_ascii_digit()))
}

/// Something to be measured.
pub trait Turn: Copy {
    /// As in the arguments and in the tables.
    fn name(self) -> &'static str;
}

/// Measures those of `turns` that `names` names, or all where it names none.
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
