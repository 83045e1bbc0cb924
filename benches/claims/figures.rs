//! Times and their format.

pub use crate::times::{Times, milliseconds};
use std::time::{Duration, Instant};

/// The time from the last of one kind to the last of another kind; zero if that came first.
pub fn last_to_last(
    from: impl Iterator<Item = Instant>,
    to: impl Iterator<Item = Instant>,
) -> Duration {
    let (from, to) = (from.max(), to.max());
    from.zip(to)
        .map(|(from, to)| to.saturating_duration_since(from))
        .unwrap_or_default()
}
