//! Times and their format.

pub use crate::times::{Times, milliseconds};
use std::time::{Duration, Instant};

/// The time from the last time in `from` to the last time in `to`; zero if the latter is earlier.
pub fn last_to_last(
    from: impl Iterator<Item = Instant>,
    to: impl Iterator<Item = Instant>,
) -> Duration {
    let (from, to) = (from.max(), to.max());
    from.zip(to)
        .map(|(from, to)| to.saturating_duration_since(from))
        .unwrap_or_default()
}
