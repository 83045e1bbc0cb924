//! For how long a watch has failed.

use std::time::Duration;
use tokio::time::Instant;

/// Two failures that are further apart belong to two outages. It exceeds the longest delay between
/// two attempts and the time of one.
const APART: Duration = Duration::from_secs(90);

/// The present outage of a watch, if there is one.
#[derive(Debug, Default)]
pub(super) struct Outage(Option<Failures>);

#[derive(Clone, Copy, Debug)]
struct Failures {
    first: Instant,
    last: Instant,
}

impl Outage {
    /// Records a failure. Returns the time since the first failure of the outage.
    pub(super) fn failed(&mut self) -> Duration {
        let (lasted, now) = (self.end(), Instant::now());
        self.0 = Some(Failures {
            first: now - lasted,
            last: now,
        });
        lasted
    }

    /// Ends the outage, because a LIST succeeded. Returns the time since its first failure.
    pub(super) fn end(&mut self) -> Duration {
        let now = Instant::now();
        let earlier = self.0.take();
        let earlier = earlier.filter(|failures| failures.last + APART > now);
        earlier.map_or(Duration::ZERO, |failures| now - failures.first)
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
        assert_eq!(outage.failed(), Duration::ZERO);
        advance(SECOND * 30).await;
        assert_eq!(outage.failed(), SECOND * 30);
        advance(SECOND * 10).await;
        assert_eq!(outage.end(), SECOND * 40);
        assert_eq!(outage.failed(), Duration::ZERO, "another one");
        // A watch that goes on reports nothing while nothing changes.
        advance(APART).await;
        assert_eq!(outage.failed(), Duration::ZERO, "it had ended");
        advance(APART).await;
        assert_eq!(outage.end(), Duration::ZERO, "it had ended");
    }
}
