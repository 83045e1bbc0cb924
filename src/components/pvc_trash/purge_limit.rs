//! Limits the purges of this process in any hour.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);

/// The purges of the last hour.
#[derive(Debug)]
pub struct PurgeLimit {
    limit: u64,
    last: Mutex<VecDeque<Instant>>,
}

impl PurgeLimit {
    /// Permits `limit` purges in any hour.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            last: Mutex::default(),
        }
    }

    /// Checks the limit, without counting a purge.
    ///
    /// # Errors
    /// How long to wait, if the limit is reached.
    pub fn check(&self) -> Result<(), Duration> {
        self.room(&mut self.lock(), Instant::now())
    }

    /// Counts a purge. [`Self::cancel`] is called if it is not carried out.
    ///
    /// # Errors
    /// How long to wait, if the limit is reached. Nothing is counted then.
    pub fn begin(&self) -> Result<Instant, Duration> {
        let now = Instant::now();
        let mut last = self.lock();
        self.room(&mut last, now)?;
        if self.limit != u64::MAX {
            last.push_back(now);
        }
        Ok(now)
    }

    /// No longer counts the purge that began at this instant.
    pub fn cancel(&self, began: Instant) {
        let mut last = self.lock();
        if let Some(place) = last.iter().rposition(|purge| *purge == began) {
            last.remove(place);
        }
    }

    fn room(&self, last: &mut VecDeque<Instant>, now: Instant) -> Result<(), Duration> {
        last.retain(|purge| now.duration_since(*purge) < HOUR);
        if (last.len() as u64) < self.limit {
            return Ok(());
        }
        let first = last.front();
        Err(first.map_or(HOUR, |first| HOUR - now.duration_since(*first)))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Instant>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_limit_holds_for_any_hour() {
        let purges = PurgeLimit::new(2);
        let minute = Duration::from_secs(60);
        assert!(purges.begin().is_ok());
        tokio::time::advance(minute).await;
        let second = purges.begin().expect("within the limit");
        assert_eq!(purges.begin(), Err(HOUR - minute));
        assert_eq!(purges.check(), Err(HOUR - minute));
        purges.cancel(second);
        assert!(purges.check().is_ok() && purges.begin().is_ok());
        tokio::time::advance(HOUR - minute).await;
        assert!(purges.begin().is_ok());
        assert!(purges.begin().is_err());
        assert_eq!(PurgeLimit::new(0).begin(), Err(HOUR));
        let unlimited = PurgeLimit::new(u64::MAX);
        assert!((0..1000).all(|_| unlimited.begin().is_ok()));
    }
}
