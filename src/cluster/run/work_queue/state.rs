//! The keys of a work queue, in the order in which they are taken.

use crate::hashing::HashMap;
use std::{
    collections::{BTreeSet, VecDeque},
    hash::Hash,
    time::Duration,
};
use tokio::time::Instant;

/// Number of keys for which an empty queue keeps its memory. It frees the rest, because the first
/// list of a watch may have added every object of a cluster.
pub(super) const MIN_CAPACITY: usize = 1024;

/// Which keys are taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    Normal,
    Urgent,
}

/// Why a key is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The last processing of the key failed, so the key is overdue.
    Failure,
    /// The last processing of the key succeeded, and the key waits for a date.
    Date,
}

/// A key that is being processed.
pub(super) struct Processing {
    /// The priority with which the key was taken. The key keeps it while it is delayed.
    pub(super) taken: Priority,
    /// The priority with which the key was added again meanwhile; none if it was not.
    pub(super) again: Option<Priority>,
}

/// A key that waits until a time.
struct Delayed {
    until: Instant,
    /// The priority with which the key is queued when its delay ends.
    priority: Priority,
    cause: Cause,
}

/// The keys of a queue. A key is queued, being processed or delayed, and never two of these.
pub(super) struct State<K> {
    pub(super) urgent: VecDeque<K>,
    /// The keys with normal priority, in order. If a key became urgent since, its outdated place
    /// stays in the list until it is reached. A place counts only if `queued` has its key with
    /// normal priority.
    pub(super) ready: VecDeque<K>,
    pub(super) queued: HashMap<K, Priority>,
    pub(super) processing: HashMap<K, Processing>,
    /// The keys of `due`, in the order in which their delays end.
    later: BTreeSet<(Instant, K)>,
    /// The delayed keys. Each of them is in `later` once, with the same time.
    due: HashMap<K, Delayed>,
    /// Number of keys in `due` that are delayed after a failure. It is maintained and not counted
    /// on demand, because the depth is reported after each reconcile.
    overdue: usize,
    pub(super) failures: HashMap<K, u32>,
    pub(super) closed: bool,
}

impl<K> State<K> {
    /// The state of a closed queue.
    pub(super) fn new() -> Self {
        Self {
            urgent: VecDeque::new(),
            ready: VecDeque::new(),
            queued: HashMap::default(),
            processing: HashMap::default(),
            later: BTreeSet::new(),
            due: HashMap::default(),
            overdue: 0,
            failures: HashMap::default(),
            closed: true,
        }
    }

    /// Number of keys that are queued, or delayed after a failure.
    pub(super) fn depth(&self) -> usize {
        self.queued.len() + self.overdue
    }

    /// Returns whether no key is queued or delayed.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.due.is_empty()
    }

    fn lane(&mut self, priority: Priority) -> &mut VecDeque<K> {
        match priority {
            Priority::Urgent => &mut self.urgent,
            Priority::Normal => &mut self.ready,
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    /// Queues the key, and ends its delay. The work for which a key was delayed is not done yet,
    /// so a delayed key keeps its priority, unless the new one is higher.
    pub(super) fn add(&mut self, key: K, priority: Priority) {
        if self.closed {
            return;
        }
        if let Some(processing) = self.processing.get_mut(&key) {
            processing.again = processing.again.max(Some(priority));
            return;
        }
        let before = self.end_delay(&key);
        let priority = before.map_or(priority, |before| before.max(priority));
        if self.queued.get(&key) < Some(&priority) {
            self.queued.insert(key.clone(), priority);
            self.lane(priority).push_back(key);
        }
    }

    /// Queues the key again if its last processing failed, or if it is being processed and may
    /// still fail. The key keeps its priority. Returns whether the key was added.
    pub(super) fn retry(&mut self, key: &K) -> bool {
        let taken = self.processing.get(key).map(|processing| processing.taken);
        let wanted = taken.is_some() || self.failures.contains_key(key);
        if wanted {
            self.add(key.clone(), taken.unwrap_or(Priority::Normal));
        }
        wanted
    }

    /// Ends the processing of a key that is to be processed again after `delay`, or at once if it
    /// was added meanwhile. The key keeps its priority, unless it was added with a higher one.
    pub(super) fn requeue(&mut self, key: &K, delay: Duration, cause: Cause) {
        let Some(Processing { taken, again }) = self.processing.remove(key) else {
            return;
        };
        match again {
            Some(again) => self.add(key.clone(), again.max(taken)),
            None => self.put_off(key.clone(), Instant::now() + delay, taken, cause),
        }
    }

    fn put_off(&mut self, key: K, until: Instant, priority: Priority, cause: Cause) {
        let delayed = Delayed {
            until,
            priority,
            cause,
        };
        self.overdue += usize::from(cause == Cause::Failure);
        self.due.insert(key.clone(), delayed);
        self.later.insert((until, key));
    }

    /// Ends the delay of the key. Returns its priority; none if the key is not delayed.
    fn end_delay(&mut self, key: &K) -> Option<Priority> {
        let delayed = self.due.remove(key)?;
        self.overdue -= usize::from(delayed.cause == Cause::Failure);
        self.later.remove(&(delayed.until, key.clone()));
        Some(delayed.priority)
    }

    /// When the first delay ends; none if no key is delayed.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.later.first().map(|(until, _)| *until)
    }

    /// Queues the keys whose delays have ended.
    pub(super) fn wake_due(&mut self) {
        let now = Instant::now();
        while self.next_due().is_some_and(|until| until <= now) {
            if let Some((_, key)) = self.later.pop_first() {
                let priority = self.end_delay(&key).unwrap_or(Priority::Normal);
                self.add(key, priority);
            }
        }
    }

    /// Takes the next key with this priority or a higher one.
    pub(super) fn take(&mut self, at_least: Priority) -> Option<K> {
        let lanes = [Priority::Urgent, Priority::Normal];
        for priority in lanes.into_iter().filter(|lane| *lane >= at_least) {
            while let Some(key) = self.lane(priority).pop_front() {
                if self.queued.get(&key) == Some(&priority) {
                    self.queued.remove(&key);
                    self.free_unused();
                    let processing = Processing {
                        taken: priority,
                        again: None,
                    };
                    self.processing.insert(key.clone(), processing);
                    return Some(key);
                }
            }
        }
        None
    }

    /// Frees the memory of many queued keys once the last of them was taken.
    fn free_unused(&mut self) {
        if !self.queued.is_empty() {
            return;
        }
        self.queued.shrink_to(MIN_CAPACITY);
        for lane in [&mut self.urgent, &mut self.ready] {
            lane.clear();
            lane.shrink_to(MIN_CAPACITY);
        }
    }
}
