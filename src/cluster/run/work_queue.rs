//! A work queue of keys: each key is queued at most once, is processed by one worker at a time, and
//! is retried after a failure.
//!
//! It replaces kube's `Controller`, which has no per-key backoff, does not expose its depth,
//! requires a `Store` of API types, and ends all reconciles if one of them panics. The semantics
//! are those of client-go's workqueue.

mod state;

use crate::cluster::api::doubling;
use crate::hashing::HashMap;
use state::{Priority, State};
use std::{
    collections::{BTreeSet, VecDeque},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

const FIRST_DELAY: Duration = Duration::from_millis(10);
const LONGEST_DELAY: Duration = Duration::from_secs(300);
/// A work queue of keys: each key is queued once and processed by one worker at a time.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    notify: Notify,
}

impl<K: Clone + Eq + Hash + Ord> Default for WorkQueue<K> {
    fn default() -> Self {
        let state = State {
            urgent: VecDeque::new(),
            ready: VecDeque::new(),
            queued: HashMap::default(),
            processing: HashMap::default(),
            later: BTreeSet::new(),
            due: HashMap::default(),
            failures: HashMap::default(),
            closed: false,
        };
        Self {
            state: Mutex::new(state),
            notify: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> WorkQueue<K> {
    /// Queues the key, unless it is queued already. A key that is being processed is queued again
    /// when it is done.
    pub fn add(&self, key: K) {
        self.lock().add(key, Priority::Normal);
        self.notify.notify_one();
    }

    /// Queues the key before all keys that are not urgent, for writes that protect data.
    pub fn add_urgent(&self, key: K) {
        self.lock().add(key, Priority::Urgent);
        self.notify.notify_one();
    }

    /// Queues a key whose last processing ended with [`WorkQueue::failed`], without waiting for
    /// its backoff, because the reason of the failure may have ended. Other keys are not queued. A
    /// key that is being processed may still fail, so it is queued again when it is done.
    pub fn retry(&self, key: &K) {
        let mut state = self.lock();
        if state.failures.contains_key(key) || state.processing.contains_key(key) {
            state.add(key.clone(), Priority::Normal);
            self.notify.notify_one();
        }
    }

    /// Waits for the next key and takes it. The caller returns the key with [`WorkQueue::done`],
    /// [`WorkQueue::failed`] or [`WorkQueue::later`].
    pub async fn take(&self) -> K {
        self.take_at_least(Priority::Normal).await
    }

    /// Waits for the next urgent key and takes it.
    pub async fn take_urgent(&self) -> K {
        self.take_at_least(Priority::Urgent).await
    }

    async fn take_at_least(&self, priority: Priority) -> K {
        loop {
            let due = {
                let mut state = self.lock();
                state.wake_due();
                if let Some(key) = state.take(priority) {
                    return key;
                }
                state.later.first().map(|(at, _)| *at)
            };
            match due {
                Some(at) => {
                    tokio::select! { biased; () = tokio::time::sleep_until(at) => {}, () = self.notify.notified() => {} }
                }
                None => self.notify.notified().await,
            }
        }
    }

    /// Ends the processing of a key that succeeded, and resets its backoff. The key is queued again
    /// if it was added meanwhile.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        state.failures.remove(key);
        if let Some(Some(priority)) = state.processing.remove(key) {
            state.add(key.clone(), priority);
            self.notify.notify_one();
        }
    }

    /// Queues a key whose processing failed: after a delay that doubles with each consecutive
    /// failure up to five minutes, and is at least `at_least`, or at once if the key was added
    /// meanwhile. Returns the delay.
    pub fn failed(&self, key: &K, at_least: Duration) -> Duration {
        let mut state = self.lock();
        let failures = state.failures.entry(key.clone()).or_default();
        *failures += 1;
        let delay = doubling(FIRST_DELAY, LONGEST_DELAY, *failures).max(at_least);
        state.give_back(key, delay);
        self.notify.notify_one();
        delay
    }

    /// Queues a taken key again after `delay`, or at once if the key was added meanwhile. It resets
    /// the backoff of the key.
    pub fn later(&self, key: &K, delay: Duration) {
        let mut state = self.lock();
        state.failures.remove(key);
        state.give_back(key, delay);
        self.notify.notify_one();
    }

    /// Returns the number of queued keys plus that of delayed keys. A key that was added during
    /// its delay counts twice until it is taken.
    pub fn len(&self) -> usize {
        let state = self.lock();
        state.queued.len() + state.later.len()
    }

    /// Returns whether no key is queued or delayed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Accepts keys again after [`Self::close`].
    pub fn open(&self) {
        self.lock().closed = false;
    }

    /// Drops all keys and accepts none until [`Self::open`]. Keys that are being processed are
    /// dropped, too, because their workers were aborted. While this replica does not lead, no
    /// worker takes keys, so an open queue would collect the name of every object that ever
    /// existed.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.urgent.clear();
        state.ready.clear();
        state.queued.clear();
        state.processing.clear();
        state.later.clear();
        state.due.clear();
        state.failures.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::SPARE;
    use tokio::time::Instant;

    async fn nothing_to_take(queue: &WorkQueue<&'static str>) -> bool {
        tokio::time::timeout(Duration::from_millis(1), queue.take())
            .await
            .is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_and_processed_by_one_worker() {
        let queue = WorkQueue::default();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.take().await, "a");
        queue.add("a");
        assert!(nothing_to_take(&queue).await, "taken by another worker");
        queue.done(&"a");
        assert_eq!(
            queue.take().await,
            "a",
            "what happened meanwhile is processed"
        );
        queue.done(&"a");
        assert!(nothing_to_take(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn urgent_keys_are_taken_first_and_once() {
        let queue = WorkQueue::default();
        for key in ["a", "b", "c"] {
            queue.add(key);
        }
        queue.add_urgent("c");
        queue.add_urgent("d");
        queue.add("d");
        assert_eq!(queue.len(), 4);
        assert_eq!(queue.take_urgent().await, "c");
        queue.add_urgent("c");
        assert_eq!(queue.take().await, "d");
        assert_eq!(queue.take().await, "a");
        queue.done(&"c");
        assert_eq!(queue.take().await, "c", "it stays urgent");
        assert_eq!(queue.take().await, "b");
        queue.add("e");
        let urgent = tokio::time::timeout(Duration::from_millis(1), queue.take_urgent());
        assert!(urgent.await.is_err());
        assert_eq!(queue.take().await, "e");
        assert!(nothing_to_take(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_double_the_wait_and_success_forgets_them() {
        let queue = WorkQueue::default();
        queue.add("a");
        for expected in [10, 20, 40] {
            let key = queue.take().await;
            assert_eq!(
                queue.failed(&key, Duration::ZERO),
                Duration::from_millis(expected)
            );
        }
        let key = queue.take().await;
        queue.done(&key);
        queue.add("a");
        let key = queue.take().await;
        assert_eq!(queue.failed(&key, Duration::ZERO), FIRST_DELAY);
        let key = queue.take().await;
        let minute = Duration::from_secs(60);
        assert_eq!(queue.failed(&key, minute), minute);
        let (key, before) = (queue.take().await, Instant::now());
        queue.later(&key, minute);
        let key = queue.take().await;
        assert_eq!(before.elapsed(), minute);
        assert_eq!(queue.failed(&key, Duration::ZERO), FIRST_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn new_events_do_not_wait_for_a_backoff() {
        let queue = WorkQueue::default();
        queue.add("a");
        for _ in 0..12 {
            let key = queue.take().await;
            queue.failed(&key, Duration::ZERO);
        }
        queue.add("a");
        assert!(!nothing_to_take(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_key_that_failed_or_is_being_processed_is_retried() {
        let queue = WorkQueue::default();
        queue.retry(&"a");
        assert!(nothing_to_take(&queue).await, "it was never processed");
        queue.add("a");
        let key = queue.take().await;
        queue.failed(&key, Duration::from_secs(60));
        queue.retry(&key);
        assert!(!nothing_to_take(&queue).await, "it failed");
        queue.retry(&key);
        queue.failed(&key, Duration::from_secs(60));
        assert_eq!(queue.take().await, "a", "it was being processed");
        queue.done(&"a");
        queue.retry(&"a");
        assert!(nothing_to_take(&queue).await, "it succeeded");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_keeps_failing_is_put_off_once_however_often_it_is_added() {
        let queue = WorkQueue::default();
        for _ in 0..1000 {
            queue.add("a");
            let key = queue.take().await;
            queue.failed(&key, Duration::ZERO);
        }
        assert_eq!(queue.len(), 1);
        let key = queue.take().await;
        queue.done(&key);
        assert!(queue.is_empty() && nothing_to_take(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_queue_keeps_no_memory_of_many_keys() {
        let queue = WorkQueue::default();
        let places = || {
            let state = queue.lock();
            let lanes = [state.urgent.capacity(), state.ready.capacity()];
            lanes.into_iter().chain([state.queued.capacity()]).max()
        };
        for key in 0..10 * SPARE {
            queue.add(key);
            queue.add_urgent(key);
        }
        assert!(places() >= Some(10 * SPARE));
        for _ in 0..10 * SPARE {
            let key = queue.take().await;
            queue.done(&key);
        }
        assert!(queue.is_empty() && places() < Some(2 * SPARE));
        queue.add(0);
        assert_eq!(queue.take().await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_remembers_nothing() {
        let queue = WorkQueue::default();
        queue.add("before");
        queue.close();
        queue.add("meanwhile");
        assert!(queue.is_empty());
        queue.open();
        queue.add("after");
        assert_eq!(queue.take().await, "after");
    }
}
