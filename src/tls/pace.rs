//! How soon one looks again at what may not be well.

use crate::cluster::doubling;
use std::time::Duration;

/// After the first look that was not well, and twice as long after each more.
pub(super) const FIRST: Duration = Duration::from_secs(2);
/// It may never be well: nobody else's API server is to pay for that.
const LONGEST: Duration = Duration::from_secs(30);

/// See the module.
pub(super) struct Pace {
    /// While all is well.
    usual: Duration,
    /// Looks in a row that were not well.
    failures: u32,
}

impl Pace {
    pub(super) fn new(usual: Duration) -> Self {
        Self { usual, failures: 0 }
    }

    /// The pause after a look.
    pub(super) fn after(&mut self, well: bool) -> Duration {
        if well {
            self.failures = 0;
            return self.usual;
        }
        self.failures = self.failures.saturating_add(1);
        doubling(FIRST, LONGEST, self.failures)
    }

    /// Something is other than it was, so it may be well now.
    pub(super) fn begin_anew(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_it_is_well_or_something_is_new() {
        let mut pace = Pace::new(Duration::from_secs(60));
        let mut pauses = |looks: [bool; 6]| looks.map(|well| pace.after(well).as_secs());
        assert_eq!(
            pauses([false, false, false, false, false, false]),
            [2, 4, 8, 16, 30, 30]
        );
        assert_eq!(
            pauses([false, true, false, false, true, false]),
            [30, 60, 2, 4, 60, 2]
        );
        pace.begin_anew();
        assert_eq!(pace.after(false), FIRST);
    }
}
