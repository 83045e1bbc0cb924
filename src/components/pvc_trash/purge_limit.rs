//! Limits the purges of this process in any hour.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);
/// How long to wait while other purges that are not written yet may reach the limit.
const RESERVED: Duration = Duration::from_secs(10);

/// The purges of the last hour, and those that are being prepared.
#[derive(Debug)]
pub struct PurgeLimit {
    limit: u64,
    purges: Mutex<Purges>,
}

#[derive(Debug, Default)]
struct Purges {
    last: VecDeque<Instant>,
    reserved: u64,
}

/// The place of a purge within the limit. It is given back when it is dropped.
#[derive(Debug)]
pub struct Slot<'a> {
    purges: &'a PurgeLimit,
}

impl PurgeLimit {
    /// Permits `limit` purges in any hour.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            purges: Mutex::default(),
        }
    }

    /// Reserves the place of a purge, before the reads that the purge requires.
    ///
    /// # Errors
    /// How long to wait, if the limit is reached.
    pub fn reserve(&self) -> Result<Slot<'_>, Duration> {
        let now = Instant::now();
        let mut purges = self.lock();
        purges
            .last
            .retain(|purge| now.duration_since(*purge) < HOUR);
        let purged = purges.last.len() as u64;
        if purged >= self.limit {
            let first = purges.last.front();
            return Err(first.map_or(HOUR, |first| HOUR - now.duration_since(*first)));
        }
        if purged + purges.reserved >= self.limit {
            return Err(RESERVED);
        }
        purges.reserved += 1;
        Ok(Slot { purges: self })
    }

    fn lock(&self) -> MutexGuard<'_, Purges> {
        self.purges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot<'_> {
    /// Counts the purge for the next hour.
    pub fn count(self) {
        if self.purges.limit != u64::MAX {
            self.purges.lock().last.push_back(Instant::now());
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.purges.lock().reserved -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_limit_holds_for_any_hour() {
        let purges = PurgeLimit::new(2);
        let wait = |purges: &PurgeLimit| purges.reserve().err();
        let minute = Duration::from_secs(60);
        purges.reserve().expect("within the limit").count();
        tokio::time::advance(minute).await;
        let second = purges.reserve().expect("within the limit");
        assert_eq!(wait(&purges), Some(RESERVED));
        drop(second);
        purges.reserve().expect("given back").count();
        assert_eq!(wait(&purges), Some(HOUR - minute));
        tokio::time::advance(HOUR - minute).await;
        purges.reserve().expect("an hour later").count();
        assert_eq!(wait(&purges), Some(minute));
        assert_eq!(wait(&PurgeLimit::new(0)), Some(HOUR));
        let unlimited = PurgeLimit::new(u64::MAX);
        (0..1000).for_each(|_| unlimited.reserve().expect("unlimited").count());
    }
}
