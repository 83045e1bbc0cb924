//! Limits how often this process does something in any hour.

use parking_lot::Mutex;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);
/// Time to wait if the limit is reached only because of reserved actions that are not carried out
/// yet: they may still fail, and then make room.
const RESERVED: Duration = Duration::from_secs(10);

/// Limits the actions in any period of one hour. It counts the actions that were carried out, and
/// those that are reserved before their reads.
#[derive(Debug)]
pub struct HourlyLimit {
    limit: u64,
    actions: Mutex<Actions>,
}

#[derive(Debug, Default)]
struct Actions {
    last: VecDeque<Instant>,
    reserved: u64,
}

/// A place within the limit that is reserved for one action, until it is dropped.
#[derive(Debug)]
pub struct Slot<'a> {
    of: &'a HourlyLimit,
    /// Whether the action counts when the place is dropped.
    counts: bool,
}

/// Parses a limit: a number, or `unlimited`.
///
/// # Errors
/// When the text is neither.
pub fn parse_hourly_limit(text: &str) -> Result<u64, String> {
    match text {
        "unlimited" => Ok(u64::MAX),
        number => number
            .parse()
            .map_err(|_| "expected a number, or `unlimited`".to_owned()),
    }
}

impl HourlyLimit {
    /// Permits `limit` actions in any hour; without limit if it is `u64::MAX`.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            actions: Mutex::default(),
        }
    }

    /// Returns whether this number of planned actions reaches the limit, whatever was carried out.
    pub fn is_reached_by(&self, planned: usize) -> bool {
        self.limit != u64::MAX && planned as u64 >= self.limit
    }

    /// Reserves a place for an action, before the reads that the action requires.
    ///
    /// # Errors
    /// The time to wait, if the limit is reached.
    pub fn reserve(&self) -> Result<Slot<'_>, Duration> {
        let now = Instant::now();
        let mut actions = self.actions.lock();
        actions
            .last
            .retain(|action| now.duration_since(*action) < HOUR);
        let done = actions.last.len() as u64;
        if done >= self.limit {
            let first = actions.last.front();
            return Err(first.map_or(HOUR, |first| HOUR - now.duration_since(*first)));
        }
        if done + actions.reserved >= self.limit {
            return Err(RESERVED);
        }
        actions.reserved += 1;
        Ok(Slot {
            of: self,
            counts: false,
        })
    }
}

impl Slot<'_> {
    /// Records that the action is about to be carried out: it counts towards the limit for an hour,
    /// also if its task is aborted before the API server has answered.
    pub fn begin(&mut self) {
        self.counts = true;
    }

    /// Records that the action was certainly not carried out, so it does not count.
    pub fn cancel(&mut self) {
        self.counts = false;
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut actions = self.of.actions.lock();
        actions.reserved -= 1;
        if self.counts && self.of.limit != u64::MAX {
            actions.last.push_back(Instant::now());
        }
    }
}

#[cfg(test)]
impl Slot<'_> {
    /// Carries out an action.
    pub(crate) fn count(mut self) {
        self.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_number_or_none() {
        assert_eq!(parse_hourly_limit("0"), Ok(0));
        assert_eq!(parse_hourly_limit("unlimited"), Ok(u64::MAX));
        assert!(parse_hourly_limit("many").is_err() && parse_hourly_limit("-1").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_holds_for_any_hour() {
        let actions = HourlyLimit::new(2);
        let wait = |actions: &HourlyLimit| actions.reserve().err();
        let minute = Duration::from_secs(60);
        actions.reserve().expect("within the limit").count();
        tokio::time::advance(minute).await;
        let second = actions.reserve().expect("within the limit");
        assert_eq!(wait(&actions), Some(RESERVED));
        drop(second);
        actions.reserve().expect("given back").count();
        assert_eq!(wait(&actions), Some(HOUR - minute));
        tokio::time::advance(HOUR - minute).await;
        actions.reserve().expect("an hour later").count();
        assert_eq!(wait(&actions), Some(minute));
        assert_eq!(wait(&HourlyLimit::new(0)), Some(HOUR));
        assert!(actions.is_reached_by(2) && !actions.is_reached_by(1));
        let mut refused = HourlyLimit::new(1);
        let slot = |limit: &mut HourlyLimit, written: bool| {
            let mut slot = limit.reserve().expect("within the limit");
            slot.begin();
            if !written {
                slot.cancel();
            }
        };
        slot(&mut refused, false);
        slot(&mut refused, true);
        assert_eq!(wait(&refused), Some(HOUR), "its answer was not awaited");
        let unlimited = HourlyLimit::new(u64::MAX);
        assert!(!unlimited.is_reached_by(usize::MAX));
        (0..1000).for_each(|_| unlimited.reserve().expect("unlimited").count());
    }
}
