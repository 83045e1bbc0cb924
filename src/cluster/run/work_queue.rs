//! A work queue of keys: each key is queued at most once, is processed by one worker at a time, and
//! is retried after a failure.
//!
//! It replaces kube's `Controller`, which has no per-key backoff, does not expose its depth,
//! requires a `Store` of API types, and ends all reconciles if one of them panics. The semantics
//! are those of client-go's workqueue.

mod state;

use crate::cluster::api::doubling;
use parking_lot::Mutex;
use state::{Cause, Priority, State};
use std::{hash::Hash, time::Duration};
use tokio::sync::Notify;

const FIRST_DELAY: Duration = Duration::from_millis(10);
const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// A work queue of keys: each key is queued once and processed by one worker at a time.
///
/// A new queue is closed until [`WorkQueue::open`]. The listeners of a component are called before
/// its reconciler runs, which waits until each kind is listed. If a kind cannot be listed, an open
/// queue would collect keys without limit.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    notify: Notify,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State::new()),
            notify: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> WorkQueue<K> {
    /// Queues the key, unless it is queued already, and ends its delay. A key that is being
    /// processed is queued again when it is done.
    pub fn add(&self, key: K) {
        self.state.lock().add(key, Priority::Normal);
        self.notify.notify_one();
    }

    /// Queues the key before all keys that are not urgent, for writes that protect data. The key
    /// stays urgent until its processing ends with [`WorkQueue::done`].
    pub fn add_urgent(&self, key: K) {
        self.state.lock().add(key, Priority::Urgent);
        self.notify.notify_one();
    }

    /// Queues a key whose last processing ended with [`WorkQueue::failed`], without waiting for
    /// its backoff, because the reason of the failure may have ended. Other keys are not queued. A
    /// key that is being processed may still fail, so it is queued again when it is done. The key
    /// keeps its priority.
    pub fn retry(&self, key: &K) {
        if self.state.lock().retry(key) {
            self.notify.notify_one();
        }
    }

    /// Waits for the next key and takes it. The caller returns the key with [`WorkQueue::done`],
    /// [`WorkQueue::failed`], [`WorkQueue::failed_on_schedule`] or [`WorkQueue::later`].
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
                let mut state = self.state.lock();
                state.wake_due();
                if let Some(key) = state.take(priority) {
                    return key;
                }
                state.next_due()
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
        let mut state = self.state.lock();
        state.failures.remove(key);
        let again = state.processing.remove(key).and_then(|taken| taken.again);
        if let Some(priority) = again {
            state.add(key.clone(), priority);
            self.notify.notify_one();
        }
    }

    /// Queues a key whose processing failed: after a delay that doubles with each consecutive
    /// failure up to five minutes, and is at least `at_least`, or at once if the key was added
    /// meanwhile. Returns the delay.
    pub fn failed(&self, key: &K, at_least: Duration) -> Duration {
        let mut state = self.state.lock();
        let failures = state.failures.entry(key.clone()).or_default();
        *failures += 1;
        let delay = doubling(FIRST_DELAY, LONGEST_DELAY, *failures).max(at_least);
        state.requeue(key, delay, Cause::Failure);
        self.notify.notify_one();
        delay
    }

    /// Queues a key whose processing failed, and whose work has its own schedule: after `delay`, or
    /// at once if the key was added meanwhile. It resets the backoff of the key.
    pub fn failed_on_schedule(&self, key: &K, delay: Duration) {
        self.put_off(key, delay, Cause::Failure);
    }

    /// Queues a key whose processing succeeded, and which waits for a date: after `delay`, or at
    /// once if the key was added meanwhile. It resets the backoff of the key.
    pub fn later(&self, key: &K, delay: Duration) {
        self.put_off(key, delay, Cause::Date);
    }

    fn put_off(&self, key: &K, delay: Duration, cause: Cause) {
        let mut state = self.state.lock();
        state.failures.remove(key);
        state.requeue(key, delay, cause);
        self.notify.notify_one();
    }

    /// Returns the number of keys that are overdue: those that are queued, and those that are
    /// delayed after a failure. A key that waits for a date is not overdue.
    pub fn depth(&self) -> usize {
        self.state.lock().depth()
    }

    /// Returns whether no key is queued or delayed.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.state.lock().is_empty()
    }

    /// Accepts keys from now on, until [`Self::close`].
    pub fn open(&self) {
        self.state.lock().closed = false;
    }

    /// Drops all keys and accepts none until [`Self::open`]. Keys that are being processed are
    /// dropped, too, because their workers were aborted. While this replica does not lead, no
    /// worker takes keys, so an open queue would collect the name of every object that ever
    /// existed.
    pub fn close(&self) {
        *self.state.lock() = State::new();
    }
}

#[cfg(test)]
mod tests;
