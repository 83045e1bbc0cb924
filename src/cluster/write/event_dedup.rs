//! Remembers which causes were reported in Events, so that each cause is reported once while it
//! holds, and not at each evaluation.

use crate::hashing::{HashMap, HashSet};
use crate::objects::CompactText;
use parking_lot::Mutex;
use std::hash::Hash;

/// The causes that hold for each object of one kind, to find those that are new.
#[derive(Debug)]
pub struct EventDeduplicator<K, C> {
    objects: Mutex<HashMap<K, Causes<C>>>,
}

/// The uid of one object, and the causes that hold for it.
type Causes<C> = (CompactText, HashSet<C>);

impl<K, C> Default for EventDeduplicator<K, C> {
    fn default() -> Self {
        let objects = Mutex::default();
        Self { objects }
    }
}

impl<K: Clone + Eq + Hash, C: Clone + Eq + Hash> EventDeduplicator<K, C> {
    /// Records the causes that now hold for an object, and returns those that did not hold at the
    /// previous call for this uid.
    pub fn new_causes(
        &self,
        name: &K,
        uid: impl Into<CompactText>,
        causes: HashSet<C>,
    ) -> HashSet<C> {
        let (uid, mut objects) = (uid.into(), self.objects.lock());
        let before = objects.remove(name).filter(|(known, _)| *known == uid);
        let before = before.map(|(_, causes)| causes).unwrap_or_default();
        let new_causes = causes.difference(&before).cloned().collect();
        if !causes.is_empty() {
            objects.insert(name.clone(), (uid, causes));
        }
        new_causes
    }

    /// Drops the causes of an object, so that each one that holds is new at the next call of
    /// [`Self::new_causes`], for example because its Event could not be published.
    pub fn forget(&self, name: &K) {
        self.objects.lock().remove(name);
    }

    /// Drops one cause of an object, as [`Self::forget`] drops all: the Events about the others
    /// were published, and are not published again.
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
}
