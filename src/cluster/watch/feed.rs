//! Watches one kind, keeps its objects in a [`Store`], and reports each change to listeners.
//!
//! Each feed has its own watch and its own backoff, so that a kind that may not be read delays no
//! other kind. kube's shared reflector streams are not used: they never report a delete, and one
//! lost wake-up stops them permanently.

use super::store::Store;
use crate::awaited::Awaited;
use crate::cluster::api::doubling;
use crate::{
    objects::{ObjectName, Tracked},
    telemetry::Metrics,
};
use futures::StreamExt;
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use std::{
    pin::pin,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};
use tokio::time::Instant;

/// Duration of one watch request. Some load balancers close a connection that was idle for four
/// minutes.
const WATCH_SECONDS: u32 = 200;
/// Interval of a new list, which corrects the store after the API server's own store was restored
/// from a backup.
const RELIST: Duration = Duration::from_secs(6 * 3600);
const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// A watch that succeeded for this time resets its backoff. If this time were shorter, objects
/// would be listed once a second on an API server that answers every watch with 410.
const FORGIVEN_AFTER: Duration = Duration::from_secs(120);
/// Number of failures after which a new watcher is created: kube's watcher does not list again
/// after an HTTP 410 at the start of a watch, but a new watcher does.
const FAILURES_PER_WATCHER: u32 = 5;

/// A change of one object in a feed.
#[derive(Debug)]
pub struct Change<'a, T> {
    /// The name of the object.
    pub name: &'a ObjectName,
    /// The object before the change; `None` if it was not known.
    pub old: Option<&'a Arc<T>>,
    /// The object after the change; `None` if it is deleted or no longer tracked.
    pub new: Option<&'a Arc<T>>,
    /// Whether the watch missed the deletion: a new list no longer contains the object.
    pub tombstone: bool,
}

type Listener<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

/// All objects of one kind, as the API server last reported them.
///
/// A feed can be stale. It can prove that an object *is* in use; proof that an object is *not* in
/// use requires a live read.
pub struct Feed<T: Tracked> {
    store: RwLock<Store<T>>,
    listeners: RwLock<Vec<Listener<T>>>,
    synced: Awaited<bool>,
    metrics: Arc<Metrics>,
}

impl<T: Tracked> Feed<T> {
    /// Creates an empty feed, which [`Feed::run`] fills.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            store: RwLock::default(),
            listeners: RwLock::default(),
            synced: Awaited::new(false),
            metrics,
        })
    }

    /// Creates a complete feed with the result of a LIST, which is not updated.
    pub fn listed(store: Store<T>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            store: RwLock::new(store),
            listeners: RwLock::default(),
            synced: Awaited::new(true),
            metrics,
        })
    }

    /// Calls `listener` after every change, in the order of the changes. The listener must not
    /// block.
    pub fn listen(&self, listener: impl Fn(&Change<'_, T>) + Send + Sync + 'static) {
        self.listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(listener));
    }

    /// Returns the objects of the feed. Hold the guard only shortly, and never across an `await`.
    pub fn read(&self) -> RwLockReadGuard<'_, Store<T>> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        self.synced.get()
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        self.synced.wait_for(|synced| synced).await;
    }

    /// Marks an object as stale after a write of Volume Warden, so that no reconciler acts on the
    /// object again before the watch delivers the result.
    pub fn mark_stale(&self, name: &ObjectName, object: &Arc<T>) {
        self.write().mark_stale(name, object);
    }

    /// Watches the kind for ever.
    pub async fn run(self: Arc<Self>, api: Api<T::Wire>) {
        let mut backoff = Backoff::default();
        loop {
            self.watch(&api, &mut backoff).await;
        }
    }

    /// Runs one watcher, until it has failed too often or a new list is due.
    async fn watch(&self, api: &Api<T::Wire>, backoff: &mut Backoff) {
        let config = watcher::Config::default()
            .timeout(WATCH_SECONDS)
            .page_size(500);
        let mut events = pin!(watcher(api.clone(), config));
        let relist = Instant::now() + RELIST;
        let mut failures = 0;
        while let Ok(Some(event)) = tokio::time::timeout_at(relist, events.next()).await {
            match event {
                Ok(event) => self.take(event),
                Err(error) => {
                    failures += 1;
                    self.metrics.feeds.failed(T::KIND);
                    let delay = backoff.next();
                    tracing::warn!(kind = T::KIND.plural(), %error, ?delay, "watch failed");
                    tokio::time::sleep(delay).await;
                }
            }
            if failures == FAILURES_PER_WATCHER {
                break;
            }
        }
    }

    fn take(&self, event: Event<T::Wire>) {
        match event {
            Event::Init => {
                self.write().begin_round();
                self.metrics.feeds.listed(T::KIND);
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

    /// Ends a list: an object that it did not contain is deleted, although the watch did not report
    /// it.
    fn complete(&self) {
        let gone = self.write().sweep();
        for (name, old) in &gone {
            self.notify(&Change {
                name,
                old: Some(old),
                new: None,
                tombstone: true,
            });
        }
        self.synced.replace(true);
        self.metrics.feeds.synced(T::KIND);
    }

    fn notify(&self, change: &Change<'_, T>) {
        for listener in self
            .listeners
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            listener(change);
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, Store<T>> {
        self.store.write().unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) fn hear(&self, object: T::Wire, exists: bool) {
        self.put(object, exists);
    }
}

#[derive(Default)]
struct Backoff {
    failures: u32,
    last: Option<Instant>,
}

impl Backoff {
    fn next(&mut self) -> Duration {
        if self
            .last
            .is_some_and(|last| last.elapsed() > FORGIVEN_AFTER)
        {
            self.failures = 0;
        }
        self.last = Some(Instant::now());
        self.failures += 1;
        doubling(FIRST_DELAY, LONGEST_DELAY, self.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{
        Pod,
        pod::{ClaimSource, PodSpec, PodVolume, PodWire},
    };
    use kube::api::ObjectMeta;
    use std::sync::Mutex;

    fn pod(name: &str, uid: &str, claim: Option<&str>) -> PodWire {
        let source = claim.map(|claim| ClaimSource {
            claim_name: claim.into(),
        });
        let volume = PodVolume {
            name: "v".into(),
            persistent_volume_claim: source,
            ephemeral: None,
        };
        PodWire {
            metadata: ObjectMeta {
                name: Some(name.into()),
                namespace: Some("ns".into()),
                uid: Some(uid.into()),
                ..ObjectMeta::default()
            },
            spec: PodSpec {
                node_name: Some("node".into()),
                volumes: vec![volume],
            },
            ..PodWire::default()
        }
    }

    fn changes(events: Vec<Event<PodWire>>) -> Vec<String> {
        let feed = Feed::<Pod>::new(Arc::new(Metrics::new()));
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let uid =
            |pod: Option<&Arc<Pod>>| pod.map_or_else(|| "-".to_owned(), |pod| pod.uid.to_string());
        feed.listen(move |change| {
            lines.lock().expect("lock").push(format!(
                "{} {}>{}",
                change.name.name,
                uid(change.old),
                uid(change.new)
            ));
        });
        events.into_iter().for_each(|event| feed.take(event));
        log.lock().expect("lock").clone()
    }

    #[test]
    fn every_change_is_reported_with_the_previous_object() {
        let seen = changes(vec![
            Event::Init,
            Event::InitApply(pod("a", "1", Some("x"))),
            Event::InitDone,
            Event::Apply(pod("a", "2", Some("x"))),
            Event::Delete(pod("a", "2", Some("x"))),
        ]);
        assert_eq!(seen, ["a ->1", "a 1>2", "a 2>-"]);
    }

    #[test]
    fn a_pod_replaced_by_one_without_claims_is_reported_as_deleted() {
        let seen = changes(vec![
            Event::Apply(pod("a", "1", Some("x"))),
            Event::Apply(pod("a", "2", None)),
        ]);
        assert_eq!(seen, ["a ->1", "a 1>-"]);
    }

    #[test]
    fn an_object_missing_from_a_relist_is_reported_as_deleted() {
        let seen = changes(vec![
            Event::Init,
            Event::InitApply(pod("a", "1", Some("x"))),
            Event::InitApply(pod("b", "2", Some("x"))),
            Event::InitDone,
            Event::Init,
            Event::InitApply(pod("b", "2", Some("x"))),
            Event::InitDone,
        ]);
        assert_eq!(seen, ["a ->1", "b ->2", "b 2>2", "a 1>-"]);
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_grows_and_is_forgiven() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..10).map(|_| backoff.next()).collect();
        assert!(delays.is_sorted() && delays[0] == FIRST_DELAY && delays[9] == LONGEST_DELAY);
        tokio::time::advance(FORGIVEN_AFTER * 2).await;
        assert_eq!(backoff.next(), FIRST_DELAY);
    }
}
