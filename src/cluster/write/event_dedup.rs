//! Remembers which causes were reported in Events, so that each cause is reported once while it
//! holds, and not at each evaluation.

use crate::hashing::{HashMap, HashSet};
use crate::objects::CompactText;
use parking_lot::Mutex;
use std::{hash::Hash, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Time after which an Event that could not be published is published again. Each failure doubles
/// it, up to [`LONGEST_PAUSE`]: some components evaluate every few seconds, and a quota or a
/// missing permission may last for days.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
/// Maximum of that time.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The causes that hold for each object of one kind, to find those that are new.
#[derive(Debug)]
pub struct EventDeduplicator<K, C> {
    objects: Mutex<HashMap<K, Causes<C>>>,
}

/// The uid of one object, and the causes that hold for it.
type Causes<C> = (CompactText, HashMap<C, Attempt>);

/// The last attempt to publish an Event.
#[derive(Clone, Copy, Debug, Default)]
struct Attempt {
    /// When the next one follows, if this one has failed.
    again_at: Option<Instant>,
    /// The time between the two; zero without a failure.
    pause: Duration,
}

impl<K, C> Default for EventDeduplicator<K, C> {
    fn default() -> Self {
        let objects = Mutex::default();
        Self { objects }
    }
}

impl<K: Clone + Eq + Hash, C: Clone + Eq + Hash> EventDeduplicator<K, C> {
    /// Records the causes that now hold for an object, and returns those that did not hold at the
    /// previous call for this uid, and those whose Event is to be published again.
    pub fn new_causes(
        &self,
        name: &K,
        uid: impl Into<CompactText>,
        causes: HashSet<C>,
    ) -> HashSet<C> {
        let (uid, now, mut objects) = (uid.into(), Instant::now(), self.objects.lock());
        let before = objects.remove(name).filter(|(known, _)| *known == uid);
        let before = before.map(|(_, causes)| causes).unwrap_or_default();
        let is_new = |cause: &C| {
            let attempt = before.get(cause);
            attempt.is_none_or(|attempt| attempt.again_at.is_some_and(|at| at <= now))
        };
        let new_causes: HashSet<_> = causes
            .iter()
            .filter(|cause| is_new(cause))
            .cloned()
            .collect();
        if !causes.is_empty() {
            let attempts = causes.into_iter().map(|cause| {
                let mut attempt = before.get(&cause).copied().unwrap_or_default();
                attempt.again_at = attempt.again_at.filter(|_| !new_causes.contains(&cause));
                (cause, attempt)
            });
            objects.insert(name.clone(), (uid, attempts.collect()));
        }
        new_causes
    }

    /// Drops the causes of an object, so that each one that holds is new at the next call of
    /// [`Self::new_causes`].
    pub fn forget(&self, name: &K) {
        self.objects.lock().remove(name);
    }

    /// Returns what is to be called if the Event about this cause, which is published in the
    /// background, could not be published: the cause is then new again after some time.
    pub fn postponing(self: &Arc<Self>, name: &K, cause: &C) -> impl FnOnce() + Send + 'static
    where
        K: Send + 'static,
        C: Send + 'static,
    {
        let (all, name, cause) = (self.clone(), name.clone(), cause.clone());
        move || {
            let mut objects = all.objects.lock();
            let attempts = objects.get_mut(&name);
            if let Some(attempt) = attempts.and_then(|(_, attempts)| attempts.get_mut(&cause)) {
                attempt.pause = (attempt.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                attempt.again_at = Some(Instant::now() + attempt.pause);
            }
        }
    }

    /// Drops one cause of an object, as [`Self::forget`] drops all.
    pub fn forget_cause(&self, name: &K, cause: &C) {
        if let Some((_, causes)) = self.objects.lock().get_mut(name) {
            causes.remove(cause);
        }
    }

    /// Drops the causes of all objects for which `there` is false: they were deleted.
    pub fn retain(&self, there: impl Fn(&K) -> bool) {
        self.objects.lock().retain(|name, _| there(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_reported_once_while_it_holds() {
        let events: EventDeduplicator<&str, &str> = EventDeduplicator::default();
        let causes = |causes: &[&'static str]| causes.iter().copied().collect::<HashSet<_>>();
        assert_eq!(
            events.new_causes(&"web", "1", causes(&["a"])),
            causes(&["a"])
        );
        assert_eq!(
            events.new_causes(&"web", "1", causes(&["a", "b"])),
            causes(&["b"])
        );
        assert_eq!(events.new_causes(&"web", "1", causes(&["b"])), causes(&[]));
        assert_eq!(
            events.new_causes(&"web", "1", causes(&["a"])),
            causes(&["a"]),
            "it had ended"
        );
        assert_eq!(
            events.new_causes(&"web", "2", causes(&["a"])),
            causes(&["a"]),
            "another object"
        );
        assert_eq!(
            events.new_causes(&"web", "2", causes(&["a", "b"])),
            causes(&["b"])
        );
        events.forget_cause(&"web", &"b");
        assert_eq!(
            events.new_causes(&"web", "2", causes(&["a", "b"])),
            causes(&["b"]),
            "its Event was not published"
        );
        events.forget(&"web");
        assert!(events.objects.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_is_never_published_is_tried_ever_more_seldom() {
        let events: Arc<EventDeduplicator<&str, &str>> = Arc::default();
        let new_causes = |causes: &[&'static str]| {
            let causes = causes.iter().copied().collect();
            events.new_causes(&"web", "1", causes)
        };
        let began = Instant::now();
        let mut attempts = Vec::new();
        while began.elapsed() < Duration::from_secs(3600) {
            if new_causes(&["a"]).contains("a") {
                attempts.push(began.elapsed().as_secs());
                events.postponing(&"web", &"a")();
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let expected = [0, 15, 45, 105, 225, 465, 945, 1545, 2145, 2745, 3345];
        assert_eq!(attempts, expected);
        assert_eq!(new_causes(&["a", "b"]), HashSet::from_iter(["b"]));
        tokio::time::sleep(LONGEST_PAUSE).await;
        let again = new_causes(&["a", "b"]);
        assert_eq!(
            again,
            HashSet::from_iter(["a"]),
            "the Event about b was published"
        );
        assert!(new_causes(&["b"]).is_empty());
        assert_eq!(
            new_causes(&["a", "b"]),
            HashSet::from_iter(["a"]),
            "it had ended"
        );
    }
}
