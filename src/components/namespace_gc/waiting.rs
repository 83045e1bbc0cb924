//! Namespaces that are gone from Kubernetes and could not be removed from the backend yet: why, since when, and when next.
//!
//! In memory only. What is lost with the process is found again by a collection.

use super::{Verdict, reason::Reason, schedule};
use crate::objects::ObjectName;
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use strum::VariantArray as _;
use tokio::time::Instant;

/// How we came to think that the namespace should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The watch told of its end.
    RecentlyDeleted,
    /// A collection found it.
    Collected,
}

impl Origin {
    /// For metrics and the log: why it should go.
    pub fn name(self) -> &'static str {
        match self {
            Self::RecentlyDeleted => "RecentlyDeleted",
            Self::Collected => Verdict::Orphan.name(),
        }
    }
}

#[derive(Debug)]
struct Wait {
    origin: Origin,
    reason: Reason,
    since: Instant,
    /// For this reason, in a row.
    failures: u32,
    attempts: u32,
    due: Instant,
    told: HashSet<Reason>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Waiting {
    namespaces: Mutex<HashMap<ObjectName, Wait>>,
}

/// What became of a namespace that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Until it is tried again.
    pub delay: Duration,
    /// Attempts so far.
    pub attempts: u32,
    /// Users have not been told of this reason yet.
    pub news: bool,
}

impl Waiting {
    /// It could not be removed.
    pub fn failed(&self, name: &ObjectName, reason: Reason, origin: Origin) -> Waits {
        let (now, mut namespaces) = (Instant::now(), self.lock());
        let wait = namespaces.entry(name.clone()).or_insert_with(|| Wait {
            origin,
            reason,
            since: now,
            failures: 0,
            attempts: 0,
            due: now,
            told: HashSet::new(),
        });
        if wait.reason != reason {
            (wait.reason, wait.failures) = (reason, 0);
        }
        wait.failures = wait.failures.saturating_add(1);
        wait.attempts = wait.attempts.saturating_add(1);
        let delay = schedule::delay(reason, wait.failures, schedule::chance());
        wait.due = now + delay;
        Waits {
            delay,
            attempts: wait.attempts,
            news: wait.told.insert(reason),
        }
    }

    /// Nobody could be told of it.
    pub fn untold(&self, name: &ObjectName, reason: Reason) {
        if let Some(wait) = self.lock().get_mut(name) {
            wait.told.remove(&reason);
        }
    }

    /// It is not tried before `delay` has passed.
    pub fn put_off(&self, name: &ObjectName, delay: Duration) {
        if let Some(wait) = self.lock().get_mut(name) {
            wait.due = Instant::now() + delay;
        }
    }

    /// Another replica leads, and what it comes to is its own.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// It is gone, or exists again.
    pub fn forget(&self, name: &ObjectName) {
        self.lock().remove(name);
    }

    /// How long it still has to wait; nothing if it need not.
    pub fn left(&self, name: &ObjectName) -> Option<Duration> {
        let namespaces = self.lock();
        let left = namespaces
            .get(name)?
            .due
            .checked_duration_since(Instant::now())?;
        (!left.is_zero()).then_some(left)
    }

    /// How we came to it, if it waits.
    pub fn origin(&self, name: &ObjectName) -> Option<Origin> {
        self.lock().get(name).map(|wait| wait.origin)
    }

    /// Those whose wait is over.
    pub fn due(&self) -> Vec<ObjectName> {
        let now = Instant::now();
        let namespaces = self.lock();
        let due = namespaces.iter().filter(|(_, wait)| wait.due <= now);
        due.map(|(name, _)| name.clone()).collect()
    }

    /// All names.
    pub fn names(&self) -> HashSet<String> {
        self.lock()
            .keys()
            .map(|name| name.name.to_string())
            .collect()
    }

    /// How many wait for each reason, and for how long the first of them has.
    pub fn count(&self) -> HashMap<Reason, (i64, Duration)> {
        let mut counts: HashMap<_, _> = Reason::VARIANTS
            .iter()
            .map(|reason| (*reason, Default::default()))
            .collect();
        for wait in self.lock().values() {
            let (count, oldest): &mut (i64, Duration) = counts.entry(wait.reason).or_default();
            *count += 1;
            *oldest = wait.since.elapsed().max(*oldest);
        }
        counts
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectName, Wait>> {
        self.namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_wait_grows_for_one_reason_and_begins_anew_for_another() {
        let (waiting, name) = (Waiting::default(), ObjectName::new("", "shop"));
        let mut last = Duration::ZERO;
        for attempt in 1..=4 {
            let waits = waiting.failed(&name, Reason::NotEmpty, Origin::RecentlyDeleted);
            assert!(
                waits.delay > last && waits.news == (attempt == 1),
                "{waits:?}"
            );
            assert_eq!(waits.attempts, attempt);
            last = waits.delay;
        }
        let waits = waiting.failed(&name, Reason::Unavailable, Origin::Collected);
        assert!(waits.delay <= SECOND && waits.news, "{waits:?}");
        assert_eq!(
            waiting.origin(&name),
            Some(Origin::RecentlyDeleted),
            "as it began"
        );
        let waits = waiting.failed(&name, Reason::NotEmpty, Origin::RecentlyDeleted);
        assert!(waits.delay <= SECOND * 30 && !waits.news, "{waits:?}");
        waiting.untold(&name, Reason::NotEmpty);
        assert!(
            waiting
                .failed(&name, Reason::NotEmpty, Origin::RecentlyDeleted)
                .news
        );
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_due_when_its_wait_is_over_and_counted_all_the_while() {
        let (waiting, name) = (Waiting::default(), ObjectName::new("", "shop"));
        let waits = waiting.failed(&name, Reason::NotEmpty, Origin::RecentlyDeleted);
        assert_eq!(waiting.left(&name), Some(waits.delay));
        assert!(waiting.due().is_empty());
        tokio::time::advance(SECOND * 30).await;
        assert_eq!(
            (waiting.left(&name), waiting.due()),
            (None, vec![name.clone()])
        );
        let counts = waiting.count();
        assert_eq!(counts[&Reason::NotEmpty], (1, SECOND * 30));
        assert_eq!(counts[&Reason::Changing], (0, Duration::ZERO));
        assert_eq!(waiting.names(), ["shop".to_owned()].into());
        waiting.forget(&name);
        let counts = waiting.count();
        assert_eq!(counts[&Reason::NotEmpty], (0, Duration::ZERO));
        assert_eq!(counts.len(), Reason::VARIANTS.len());
    }
}
