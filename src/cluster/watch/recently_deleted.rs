//! Recently deleted objects, kept briefly because other controllers may still act on stale caches.

use crate::hashing::HashMap;
use parking_lot::Mutex;
use std::{collections::VecDeque, hash::Hash, time::Duration};
use tokio::time::Instant;

/// Recently deleted objects of one kind.
#[derive(Debug)]
pub struct RecentlyDeleted<K, V> {
    remembered: Duration,
    memory: Mutex<Memory<K, V>>,
}

#[derive(Debug)]
struct Memory<K, V> {
    last: HashMap<K, (Instant, V)>,
    /// The deleted objects, in the order of their deletion.
    order: VecDeque<(Instant, K)>,
}

impl<K: Clone + Eq + Hash, V: Clone> RecentlyDeleted<K, V> {
    /// Creates a memory that keeps each deleted object for the duration `remembered`.
    pub fn new(remembered: Duration) -> Self {
        let memory = Memory {
            last: HashMap::default(),
            order: VecDeque::new(),
        };
        Self {
            remembered,
            memory: Mutex::new(memory),
        }
    }

    /// Adds a deleted object with its last state.
    pub fn remember(&self, key: K, last: V) {
        let (now, mut memory) = (Instant::now(), self.memory.lock());
        memory.forget(now, self.remembered);
        memory.order.push_back((now, key.clone()));
        memory.last.insert(key, (now, last));
    }

    /// Returns the last state of the object, if it was deleted recently enough to be remembered.
    pub fn get(&self, key: &K) -> Option<V> {
        let mut memory = self.memory.lock();
        memory.forget(Instant::now(), self.remembered);
        memory.last.get(key).map(|(_, last)| last.clone())
    }
}

impl<K: Eq + Hash, V> Memory<K, V> {
    fn forget(&mut self, now: Instant, remembered: Duration) {
        let due = |(since, _): &mut (Instant, K)| now.duration_since(*since) >= remembered;
        while let Some((since, key)) = self.order.pop_front_if(due) {
            // If the object was recreated and deleted again since, its newer entry is kept.
            if self.last.get(&key).is_some_and(|(last, _)| *last == since) {
                self.last.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_deleted_object_is_remembered_for_a_while() {
        let departed = RecentlyDeleted::new(MINUTE);
        departed.remember("web", 1);
        tokio::time::advance(MINUTE / 2).await;
        assert_eq!(departed.get(&"web"), Some(1));
        departed.remember("web", 2);
        tokio::time::advance(MINUTE / 2).await;
        assert_eq!(departed.get(&"web"), Some(2), "it went a second time");
        departed.remember("other", 3);
        assert_eq!(
            departed.get(&"web"),
            Some(2),
            "only its first end is forgotten"
        );
        tokio::time::advance(MINUTE / 2).await;
        assert_eq!(departed.get(&"web"), None);
        let kept = || {
            let memory = departed.memory.lock();
            (memory.last.len(), memory.order.len())
        };
        departed.remember("third", 4);
        assert_eq!(kept(), (2, 2), "nothing is kept indefinitely");
        tokio::time::advance(MINUTE).await;
        assert_eq!(departed.get(&"any"), None);
        assert_eq!(kept(), (0, 0), "also if nothing more is deleted");
    }
}
