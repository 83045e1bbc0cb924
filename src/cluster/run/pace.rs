//! The pause between two rounds of a periodic task, such as the renewal of the certificate.

use crate::cluster::api::doubling;
use std::time::Duration;

/// Pause after the first failed round; it doubles with each further failure, up to [`LONGEST`].
pub(crate) const FIRST_RETRY: Duration = Duration::from_secs(2);
/// Maximum pause after a failed round. A task that always fails must not load the API server.
const LONGEST: Duration = Duration::from_secs(30);

/// Backoff of a periodic task.
pub(crate) struct Pace {
    /// Pause after a round that succeeded.
    usual: Duration,
    /// Number of consecutive failed rounds.
    failures: u32,
}

impl Pace {
    pub(crate) fn new(usual: Duration) -> Self {
        Self { usual, failures: 0 }
    }

    /// Returns the pause after a round, which succeeded if `well` is true.
    pub(crate) fn after(&mut self, well: bool) -> Duration {
        if well {
            self.failures = 0;
            return self.usual;
        }
        self.failures = self.failures.saturating_add(1);
        doubling(FIRST_RETRY, LONGEST, self.failures)
    }

    /// Resets the backoff: something has changed, so the next round may succeed.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_success_or_a_change() {
        let mut pace = Pace::new(Duration::from_secs(60));
        let mut pauses = |outcomes: [bool; 6]| outcomes.map(|well| pace.after(well).as_secs());
        assert_eq!(
            pauses([false, false, false, false, false, false]),
            [2, 4, 8, 16, 30, 30]
        );
        assert_eq!(
            pauses([false, true, false, false, true, false]),
            [30, 60, 2, 4, 60, 2]
        );
        pace.reset();
        assert_eq!(pace.after(false), FIRST_RETRY);
    }
}
