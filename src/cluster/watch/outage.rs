//! For how long a watch has failed.

use std::time::Duration;
use tokio::time::Instant;

/// Two failures of a watch that are further apart belong to two outages: a watch that goes on
/// reports nothing while nothing changes. It exceeds the longest delay between two attempts, and
/// the time after which an API server that is overloaded refuses one.
const MAX_FAILURE_GAP: Duration = Duration::from_secs(90);

/// A watch can begin at the resourceVersion of a LIST at least this long after the LIST began: the
/// API server keeps events for as long. Source: `DefaultEventFreshDuration` in
/// `apiserver/pkg/storage/cacher/cacher.go`.
const VERSION_KEPT: Duration = Duration::from_secs(75);

/// The present outage of a watch, if there is one.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failures: Option<Failures>,
    /// When the first of the LISTs began that have not succeeded yet. No watch goes on meanwhile.
    listing: Option<Instant>,
    /// When the last of them began.
    last_list: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    first: Instant,
    last: Instant,
}

impl Outage {
    /// Records that a LIST begins.
    pub(super) fn begin_list(&mut self) {
        self.failures = self.present();
        let now = Instant::now();
        self.listing.get_or_insert(now);
        self.last_list = Some(now);
    }

    /// Records a failure. Returns the time since the outage began: with its first failure, with the
    /// LIST that failed first, or, if the API server sent nothing for a time before it, `silence`
    /// ago.
    pub(super) fn failed(&mut self, silence: Duration) -> Duration {
        let now = Instant::now();
        let known = self.present().map(|failures| failures.first);
        let first = known.or(self.listing).unwrap_or(now);
        let first = first.min(now.checked_sub(silence).unwrap_or(first));
        self.failures = Some(Failures { first, last: now });
        now - first
    }

    /// Ends the outage, because a LIST succeeded. Returns how long it lasted: until that LIST
    /// began, because the next watch begins at its resourceVersion, or until now if the LIST took
    /// longer than [`VERSION_KEPT`].
    pub(super) fn end(&mut self) -> Duration {
        let (ended, list) = (self.present(), self.last_list);
        *self = Self::default();
        let list = list.filter(|began| began.elapsed() < VERSION_KEPT);
        let end = list.unwrap_or_else(Instant::now);
        ended.map_or(Duration::ZERO, |failures| {
            end.saturating_duration_since(failures.first)
        })
    }

    fn present(&self) -> Option<Failures> {
        let belongs = |failures: &Failures| {
            self.listing.is_some() || failures.last.elapsed() < MAX_FAILURE_GAP
        };
        self.failures.filter(belongs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_outage_lasts_from_its_first_failure_to_the_next_list() {
        let mut outage = Outage::default();
        assert_eq!(outage.end(), Duration::ZERO, "it never failed");
        assert_eq!(outage.failed(Duration::ZERO), Duration::ZERO);
        advance(SECOND * 30).await;
        assert_eq!(outage.failed(Duration::ZERO), SECOND * 30);
        advance(SECOND * 10).await;
        assert_eq!(outage.end(), SECOND * 40);
        assert_eq!(outage.failed(Duration::ZERO), Duration::ZERO, "another one");
        // A watch that goes on reports nothing while nothing changes.
        advance(MAX_FAILURE_GAP).await;
        assert_eq!(
            outage.failed(Duration::ZERO),
            Duration::ZERO,
            "it had ended"
        );
        advance(MAX_FAILURE_GAP).await;
        assert_eq!(outage.end(), Duration::ZERO, "it had ended");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_before_a_failure_belongs_to_its_outage() {
        let mut outage = Outage::default();
        advance(MAX_FAILURE_GAP).await;
        assert_eq!(outage.failed(SECOND * 20), SECOND * 20);
        advance(SECOND).await;
        assert_eq!(outage.failed(Duration::ZERO), SECOND * 21);
        assert_eq!(outage.failed(SECOND * 5), SECOND * 21, "it began earlier");
        assert_eq!(outage.failed(SECOND * 40), SECOND * 40);
        assert_eq!(outage.end(), SECOND * 40);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_takes_long_belongs_to_its_outage() {
        let mut outage = Outage::default();
        outage.failed(Duration::ZERO);
        outage.begin_list();
        advance(MAX_FAILURE_GAP * 2).await;
        assert_eq!(
            outage.failed(Duration::ZERO),
            MAX_FAILURE_GAP * 2,
            "it failed"
        );
        outage.begin_list();
        advance(VERSION_KEPT - SECOND).await;
        assert_eq!(
            outage.end(),
            MAX_FAILURE_GAP * 2,
            "the LIST that succeeded misses nothing"
        );
        outage.failed(Duration::ZERO);
        outage.begin_list();
        advance(VERSION_KEPT).await;
        assert_eq!(outage.end(), VERSION_KEPT, "its version may be too old");
        outage.failed(Duration::ZERO);
        advance(MAX_FAILURE_GAP).await;
        outage.begin_list();
        advance(SECOND).await;
        assert_eq!(outage.end(), Duration::ZERO, "the watch went on before");
        outage.begin_list();
        advance(MAX_FAILURE_GAP).await;
        assert_eq!(
            outage.failed(Duration::ZERO),
            MAX_FAILURE_GAP,
            "the LIST failed"
        );
    }
}
