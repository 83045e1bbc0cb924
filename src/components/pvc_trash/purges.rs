//! Limits the purges of this process in any hour.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);

/// The purges of the last hour.
#[derive(Debug)]
pub struct Purges {
    limit: u64,
    last: Mutex<VecDeque<Instant>>,
}

impl Purges {
    /// Permits `limit` purges in any hour.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            last: Mutex::default(),
        }
    }

    /// Counts a purge.
    ///
    /// # Errors
    /// How long to wait, if the limit is reached. Nothing is counted then.
    pub fn begin(&self) -> Result<(), Duration> {
        if self.limit == u64::MAX {
            return Ok(());
        }
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|purge| now.duration_since(*purge) < HOUR);
        if (last.len() as u64) < self.limit {
            last.push_back(now);
            return Ok(());
        }
        let first = last
            .front()
            .map_or(HOUR, |first| HOUR - now.duration_since(*first));
        Err(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_limit_holds_for_any_hour() {
        let purges = Purges::new(2);
        let minute = Duration::from_secs(60);
        assert_eq!(purges.begin(), Ok(()));
        tokio::time::advance(minute).await;
        assert_eq!(purges.begin(), Ok(()));
        assert_eq!(purges.begin(), Err(HOUR - minute));
        tokio::time::advance(HOUR - minute).await;
        assert_eq!(purges.begin(), Ok(()));
        assert!(purges.begin().is_err());
        assert_eq!(Purges::new(0).begin(), Err(HOUR));
        let unlimited = Purges::new(u64::MAX);
        assert!((0..1000).all(|_| unlimited.begin().is_ok()));
    }
}
