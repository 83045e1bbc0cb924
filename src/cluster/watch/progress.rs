//! The sync state of the watch of one kind, and its callbacks. It does not depend on the type of
//! the objects, so that `Feeds` can return it by kind.

use super::outage::Outage;
use crate::awaited::Awaited;
use parking_lot::{Mutex, RwLock};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

type OutageListener = Box<dyn Fn(Duration) + Send + Sync>;

/// Whether the first list of a kind is complete, and what happened to its watch since.
pub(super) struct Progress {
    synced: Awaited<bool>,
    after_relist: RwLock<Vec<Arc<Notify>>>,
    outage: Mutex<Outage>,
    during_outage: RwLock<Vec<OutageListener>>,
}

impl Progress {
    /// The progress of a kind whose first list is complete if `synced`.
    pub(super) fn new(synced: bool) -> Self {
        Self {
            synced: Awaited::new(synced),
            after_relist: RwLock::default(),
            outage: Mutex::default(),
            during_outage: RwLock::default(),
        }
    }

    /// Returns whether the first list is complete.
    pub(super) fn is_synced(&self) -> bool {
        self.synced.get()
    }

    /// Waits until the first list is complete.
    pub(super) async fn synced(&self) {
        self.synced.wait_for(|synced| synced).await;
    }

    /// Notifies `after` at the end of each LIST except the first. An object that was created and
    /// deleted since the watch ended is reported to no listener, so a reconcile that waits for it
    /// to appear must be repeated.
    pub(super) fn after_relist(&self, after: Arc<Notify>) {
        let mut notified = self.after_relist.write();
        notified.push(after);
    }

    /// Calls `listener` at each failure of the watch, and at the end of a LIST after failures, with
    /// the time since the outage began: for so long, changes may have been missed. A watch that is
    /// silent does not fail: kube's watcher goes on at the same resourceVersion, with another one.
    /// If the API server does not know that version any more, the outage began with the silence.
    pub(super) fn during_outage(&self, listener: impl Fn(Duration) + Send + Sync + 'static) {
        let mut listeners = self.during_outage.write();
        listeners.push(Box::new(listener));
    }

    /// Records that a LIST begins.
    pub(super) fn begin_list(&self) {
        self.outage.lock().begin_list();
    }

    /// Records that the watch or a LIST failed, and for how long the watch had been silent and
    /// changes of that time are lost.
    pub(super) fn failed(&self, silence: Duration) {
        self.missed(|outage| outage.failed(silence));
    }

    /// Records that a LIST succeeded, before the objects that it lacks are removed.
    pub(super) fn listed(&self) {
        self.missed(Outage::end);
    }

    /// Records that the feed shows what the LIST contained.
    pub(super) fn complete(&self) {
        let is_relist = self.synced.replace(true);
        if is_relist {
            let after = self.after_relist.read();
            after.iter().for_each(|after| after.notify_one());
        }
    }

    fn missed(&self, time: impl FnOnce(&mut Outage) -> Duration) {
        let time = time(&mut self.outage.lock());
        let listeners = self.during_outage.read();
        listeners.iter().for_each(|listener| listener(time));
    }
}
