//! Watches one kind, keeps its objects in a [`Store`], and reports each change to listeners.
//! client-go calls this an informer, its store an indexer, and the listeners event handlers.
//!
//! Each feed has its own watch and its own backoff, so that a kind that may not be read delays no
//! other kind. kube's shared reflector streams are not used: they never report a delete, and one
//! lost wake-up stops them permanently.

use super::{
    activity::WatchActivity,
    failure::{Backoff, WATCH_SECONDS, missed_duration, needs_list},
    progress::Progress,
    store::Store,
};
use crate::{
    objects::{ObjectName, Tracked},
    telemetry::Metrics,
};
use futures::{StreamExt, future::BoxFuture};
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Interval of a new list, which corrects the store after etcd was restored from a backup.
const RELIST: Duration = Duration::from_secs(6 * 3600);

/// A change of one object in a feed.
#[derive(Debug)]
pub struct Change<'a, T> {
    /// The name of the object, which is its key in the feed. The namespace is empty for a
    /// cluster-scoped kind.
    pub name: &'a ObjectName,
    /// The object before the change; `None` if it was not known.
    pub old: Option<&'a Arc<T>>,
    /// The object after the change; `None` if it is deleted or no longer tracked.
    pub new: Option<&'a Arc<T>>,
    /// Whether the watch missed the deletion: a new list no longer contains the object.
    pub tombstone: bool,
}

type Listener<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

/// The tracked objects of one kind, as the API server last reported them.
///
/// A feed can be stale. If it shows that an object *is* in use, the object is kept; proof that an
/// object is *not* in use requires a live read.
pub struct Feed<T: Tracked> {
    store: RwLock<Store<T>>,
    listeners: RwLock<Vec<Listener<T>>>,
    pub(super) progress: Progress,
    metrics: Arc<Metrics>,
}

impl<T: Tracked> Feed<T> {
    /// Creates an empty feed, which [`Feed::run`] fills.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            store: RwLock::default(),
            listeners: RwLock::default(),
            progress: Progress::new(false),
            metrics,
        })
    }

    /// Creates a complete feed with the result of a LIST, which is not updated.
    pub fn listed(store: Store<T>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            store: RwLock::new(store),
            listeners: RwLock::default(),
            progress: Progress::new(true),
            metrics,
        })
    }

    /// Calls `listener` after every change, in the order of the changes. The listener must not
    /// block.
    pub fn listen(&self, listener: impl Fn(&Change<'_, T>) + Send + Sync + 'static) {
        self.listeners.write().push(Box::new(listener));
    }

    /// Drops all listeners: see [`Feeds::unlisten`](super::feeds::Feeds::unlisten).
    pub(super) fn unlisten(&self) {
        let mut listeners = self.listeners.write();
        listeners.clear();
    }

    /// Returns the objects of the feed. Hold the guard only shortly, and never across an `await`.
    pub fn read(&self) -> RwLockReadGuard<'_, Store<T>> {
        self.store.read()
    }

    /// Returns whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        self.progress.is_synced()
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        self.progress.synced().await;
    }

    /// Marks an object as stale after a write of Volume Warden, so that no reconciler acts on the
    /// object again before the watch delivers the result, or for a minute at most.
    pub fn mark_stale(&self, name: &ObjectName, object: &Arc<T>) {
        self.write().mark_stale(name, object);
    }

    /// Watches the kind until the future is dropped. `activity` observes the responses to `api`.
    pub(super) fn run(
        self: &Arc<Self>,
        api: Api<T::Wire>,
        activity: WatchActivity,
    ) -> BoxFuture<'static, ()> {
        let feed = self.clone();
        Box::pin(async move {
            let mut backoff = Backoff::default();
            loop {
                feed.watch(&api, &activity, &mut backoff).await;
            }
        })
    }

    /// Runs one watcher, until [`needs_list`] is true for an error or [`RELIST`] has passed. After
    /// most other failures the watch continues at its resourceVersion, so that an API server that
    /// was unavailable for seconds sends only what has changed.
    async fn watch(&self, api: &Api<T::Wire>, activity: &WatchActivity, backoff: &mut Backoff) {
        let mut config = watcher::Config::default()
            .timeout(WATCH_SECONDS)
            .page_size(500);
        config.label_selector = T::LABELS.map(str::to_owned);
        config.field_selector = T::FIELDS.map(str::to_owned);
        let mut events = pin!(watcher(api.clone(), config));
        let relist = Instant::now() + RELIST;
        while let Ok(Some(event)) = tokio::time::timeout_at(relist, events.next()).await {
            match event {
                Ok(event) => self.take(event),
                Err(error) => {
                    self.metrics.watches.failed(T::KIND);
                    self.progress
                        .failed(missed_duration(&error, activity.silence()));
                    let delay = backoff.next(T::KIND);
                    tracing::warn!(kind = T::KIND.plural(), %error, ?delay, "watch failed");
                    tokio::time::sleep(delay).await;
                    if needs_list(&error) {
                        break;
                    }
                }
            }
        }
    }

    fn take(&self, event: Event<T::Wire>) {
        match event {
            Event::Init => {
                self.progress.begin_list();
                self.write().begin_list();
                self.metrics.watches.listed(T::KIND);
            }
            Event::InitApply(wire) | Event::Apply(wire) => self.put(wire, true),
            Event::Delete(wire) => self.put(wire, false),
            Event::InitDone => self.complete(),
        }
    }

    fn put(&self, wire: T::Wire, exists: bool) {
        let Some(name) = ObjectName::of(kube::Resource::meta(&wire)) else {
            return;
        };
        let new = Some(wire)
            .filter(|_| exists)
            .and_then(T::track)
            .map(Arc::new);
        let old = self.write().put(name.clone(), new.clone());
        if old.is_some() || new.is_some() {
            self.notify(&Change {
                name: &name,
                old: old.as_ref(),
                new: new.as_ref(),
                tombstone: false,
            });
        }
    }

    /// Ends a list. An object in the store that the list did not contain no longer exists, although
    /// the watch did not report its deletion. Such objects are removed from the store one by one,
    /// so that an admission review never waits until all of them are removed.
    fn complete(&self) {
        self.progress.listed();
        let absent = self.read().absent();
        for name in absent {
            let old = self.write().put(name.clone(), None);
            self.notify(&Change {
                name: &name,
                old: old.as_ref(),
                new: None,
                tombstone: true,
            });
        }
        self.write().end_list();
        self.progress.complete();
        self.metrics.watches.synced(T::KIND);
    }

    fn notify(&self, change: &Change<'_, T>) {
        for listener in self.listeners.read().iter() {
            listener(change);
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, Store<T>> {
        self.store.write()
    }
}

#[cfg(test)]
impl<T: Tracked> Feed<T> {
    /// Creates a feed whose first list is complete and contains these objects.
    pub(crate) fn filled(objects: Vec<T::Wire>) -> Arc<Self> {
        let feed = Self::new(Arc::new(Metrics::new()));
        feed.list(objects);
        feed
    }

    /// Replaces all objects by those of a complete list.
    pub(crate) fn list(&self, objects: Vec<T::Wire>) {
        let applied = objects.into_iter().map(Event::InitApply);
        std::iter::once(Event::Init)
            .chain(applied)
            .chain([Event::InitDone])
            .for_each(|event| self.take(event));
    }

    /// Applies one watch event: the object as it is now, or its last state before its deletion.
    pub(crate) fn deliver(&self, object: T::Wire, exists: bool) {
        self.put(object, exists);
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
