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
pub(super) const SPARE: usize = 1024;

/// Which keys are taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    Normal,
    Urgent,
}

pub(super) struct State<K> {
    pub(super) urgent: VecDeque<K>,
    /// The keys with normal priority, in order. If a key became urgent since, its outdated place
    /// stays in the list until it is reached. A place counts only if `queued` has its key with
    /// normal priority.
    pub(super) ready: VecDeque<K>,
    pub(super) queued: HashMap<K, Priority>,
    /// Keys that are being processed, each with the priority with which it was added again
    /// meanwhile; none if it was not.
    pub(super) processing: HashMap<K, Option<Priority>>,
    pub(super) later: BTreeSet<(Instant, K)>,
    /// When each delayed key is due. Each of these keys is in `later` once, with this time.
    pub(super) due: HashMap<K, Instant>,
    pub(super) failures: HashMap<K, u32>,
    pub(super) closed: bool,
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    pub(super) fn add(&mut self, key: K, priority: Priority) {
        if self.closed {
            return;
        }
        if let Some(again) = self.processing.get_mut(&key) {
            *again = (*again).max(Some(priority));
        } else if self.queued.get(&key) < Some(&priority) {
            self.queued.insert(key.clone(), priority);
            self.lane(priority).push_back(key);
        }
    }

    fn lane(&mut self, priority: Priority) -> &mut VecDeque<K> {
        match priority {
            Priority::Urgent => &mut self.urgent,
            Priority::Normal => &mut self.ready,
        }
    }

    pub(super) fn give_back(&mut self, key: &K, delay: Duration) {
        if let Some(Some(priority)) = self.processing.remove(key) {
            self.add(key.clone(), priority);
        } else {
            self.put_off(key.clone(), Instant::now() + delay);
        }
    }

    fn put_off(&mut self, key: K, until: Instant) {
        self.forget_due(&key);
        self.due.insert(key.clone(), until);
        self.later.insert((until, key));
    }

    fn forget_due(&mut self, key: &K) {
        if let Some(at) = self.due.remove(key) {
            self.later.remove(&(at, key.clone()));
        }
    }

    pub(super) fn wake_due(&mut self) {
        let now = Instant::now();
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.later.pop_first() {
                self.due.remove(&key);
                self.add(key, Priority::Normal);
            }
        }
    }

    pub(super) fn take(&mut self, at_least: Priority) -> Option<K> {
        let lanes = [Priority::Urgent, Priority::Normal];
        for priority in lanes.into_iter().filter(|lane| *lane >= at_least) {
            while let Some(key) = self.lane(priority).pop_front() {
                if self.queued.get(&key) == Some(&priority) {
                    self.queued.remove(&key);
                    self.free_unused();
                    self.forget_due(&key);
                    self.processing.insert(key.clone(), None);
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
        self.queued.shrink_to(SPARE);
        for lane in [&mut self.urgent, &mut self.ready] {
            lane.clear();
            lane.shrink_to(SPARE);
        }
    }
}
