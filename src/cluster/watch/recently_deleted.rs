//! Recently deleted objects, kept briefly because other controllers may still act on stale caches.

use crate::hashing::HashMap;
use parking_lot::Mutex;
use std::{collections::VecDeque, hash::Hash, time::Duration};
use tokio::time::Instant;

/// Recently deleted objects of one kind.
#[derive(Debug)]
pub struct RecentlyDeleted<K, V> {
    remembered: Duration,
    /// Maximum sum of the sizes of all remembered objects.
    most: usize,
    size: fn(&V) -> usize,
    memory: Mutex<Memory<K, V>>,
}

#[derive(Debug)]
struct Memory<K, V> {
    last: HashMap<K, (Instant, V)>,
    /// The deleted objects, in the order of their deletion.
    order: VecDeque<(Instant, K)>,
    /// The sum of the sizes.
    sum: usize,
}

impl<K: Clone + Eq + Hash, V: Clone> RecentlyDeleted<K, V> {
    /// Creates a memory that keeps each deleted object for the duration `remembered`.
    pub fn new(remembered: Duration) -> Self {
        Self::bounded(remembered, usize::MAX, |_| 0)
    }

    /// Creates the same memory, which forgets the oldest objects while the sum of the sizes is more
    /// than `most`.
    pub fn bounded(remembered: Duration, most: usize, size: fn(&V) -> usize) -> Self {
        let memory = Memory {
            last: HashMap::default(),
            order: VecDeque::new(),
            sum: 0,
        };
        Self {
            remembered,
            most,
            size,
            memory: Mutex::new(memory),
        }
    }

    /// Adds a deleted object with its last state.
    pub fn remember(&self, key: K, last: V) {
        let (now, mut memory) = (Instant::now(), self.memory.lock());
        memory.order.push_back((now, key.clone()));
        memory.sum += (self.size)(&last);
        if let Some((_, earlier)) = memory.last.insert(key, (now, last)) {
            memory.sum -= (self.size)(&earlier);
        }
        self.forget(&mut memory, now);
    }

    /// Returns the last state of the object, if it was deleted recently enough to be remembered.
    pub fn get(&self, key: &K) -> Option<V> {
        let mut memory = self.memory.lock();
        self.forget(&mut memory, Instant::now());
        memory.last.get(key).map(|(_, last)| last.clone())
    }

    /// Forgets what was deleted long enough ago, and the oldest objects beyond the limit.
    fn forget(&self, memory: &mut Memory<K, V>, now: Instant) {
        loop {
            let full = memory.sum > self.most;
            let due = |(since, _): &mut (Instant, K)| {
                full || now.duration_since(*since) >= self.remembered
            };
            let Some((since, key)) = memory.order.pop_front_if(due) else {
                return;
            };
            // If the object was recreated and deleted again since, its newer entry is kept.
            if memory
                .last
                .get(&key)
                .is_some_and(|(last, _)| *last == since)
                && let Some((_, last)) = memory.last.remove(&key)
            {
                memory.sum -= (self.size)(&last);
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

    #[tokio::test(start_paused = true)]
    async fn the_oldest_objects_beyond_the_limit_are_forgotten() {
        let deleted = RecentlyDeleted::bounded(MINUTE, 10, |size| *size);
        for (key, size) in [("a", 4), ("b", 4), ("a", 5), ("c", 5)] {
            tokio::time::advance(MINUTE / 60).await;
            deleted.remember(key, size);
        }
        let found = ["a", "b", "c"].map(|key| deleted.get(&key));
        assert_eq!(found, [Some(5), None, Some(5)]);
        deleted.remember("large", 11);
        assert_eq!(deleted.get(&"large"), None);
        assert_eq!(deleted.memory.lock().sum, 0);
    }
}
