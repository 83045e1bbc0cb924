//! The task that lists one namespace for the callers that wait.

use super::{Caller, SharedList};
use crate::objects::Tracked;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// A LIST begins when no new caller has arrived for this time and a permit is free, so that the
/// reconciles of a burst of deletions share one LIST.
const BATCH_IDLE: Duration = Duration::from_millis(20);
/// Maximum time for which a LIST is delayed while new callers arrive.
const MAX_BATCH_DELAY: Duration = Duration::from_millis(100);

/// Lists one namespace repeatedly as long as callers wait for it.
pub(super) struct Reader<T: Tracked> {
    pub(super) lists: Arc<SharedList<T>>,
    pub(super) namespace: Arc<str>,
    /// Whether this reader has removed its namespace from `pending`. An entry of that namespace
    /// then belongs to a newer reader.
    pub(super) ended: bool,
}

impl<T: Tracked> Reader<T> {
    pub(super) async fn run(&mut self) {
        let lists = self.lists.clone();
        loop {
            self.gather().await;
            // The semaphore is never closed, so acquiring a permit cannot fail.
            let _permit = lists.in_flight.acquire().await;
            let Some(began) = self.begin() else { return };
            let answer = lists.read(&self.namespace, began).await;
            for caller in self.end() {
                // If the caller no longer waits for the result, sending it fails, which does not
                // matter.
                let _ = caller.send(answer.clone());
            }
        }
    }

    /// Waits until no new callers arrive, or for at most [`MAX_BATCH_DELAY`].
    async fn gather(&self) {
        let pending = || Some(self.lists.pending.lock().get(&self.namespace)?.next.len());
        let (began, mut before) = (Instant::now(), Some(0));
        while before != pending() && began.elapsed() < MAX_BATCH_DELAY {
            before = pending();
            tokio::time::sleep(BATCH_IDLE).await;
        }
    }

    /// Begins a LIST for the waiting callers. If no caller waits, it returns none and this reader
    /// ends; the next caller starts a new reader.
    fn begin(&mut self) -> Option<Instant> {
        let mut pending = self.lists.pending.lock();
        let entry = pending.get_mut(&self.namespace)?;
        entry.present = std::mem::take(&mut entry.next);
        entry.present.retain(|caller| !caller.is_closed());
        if entry.present.is_empty() {
            pending.remove(&self.namespace);
            self.ended = true;
            return None;
        }
        entry.began = Some(Instant::now());
        entry.began
    }

    /// Ends the LIST, and returns the callers that it serves.
    fn end(&self) -> Vec<Caller<T>> {
        let mut pending = self.lists.pending.lock();
        let Some(entry) = pending.get_mut(&self.namespace) else {
            return Vec::new();
        };
        entry.began = None;
        std::mem::take(&mut entry.present)
    }
}

/// After a panic of the reader, the callers that wait get an error, and the next caller starts a
/// new reader.
impl<T: Tracked> Drop for Reader<T> {
    fn drop(&mut self) {
        if !self.ended {
            self.lists.pending.lock().remove(&self.namespace);
        }
    }
}
