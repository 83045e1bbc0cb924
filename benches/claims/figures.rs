//! Times, and how they are written.

pub use crate::times::{Times, milliseconds};
use std::time::{Duration, Instant};

/// From the last of one kind to the last of another kind; no time at all if that came first.
pub fn last_to_last(
    from: impl Iterator<Item = Instant>,
    to: impl Iterator<Item = Instant>,
) -> Duration {
    let (from, to) = (from.max(), to.max());
    from.zip(to)
        .map(|(from, to)| to.saturating_duration_since(from))
        .unwrap_or_default()
}
