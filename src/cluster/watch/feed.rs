//! One watch per kind, kept as a [`Store`], with its changes sent to listeners.
//!
//! Each feed has its own watch and its own backoff, so that a kind that may not be read delays no
//! other. kube's shared reflector streams are not used: they never report a delete, and one lost
//! wake-up stops them permanently.

use super::store::Store;
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
use tokio::{sync::watch, time::Instant};

/// Some load balancers drop a connection that was idle for four minutes.
const WATCH_SECONDS: u32 = 200;
/// A list now and then, against an API server whose store was restored from a backup.
const RELIST: Duration = Duration::from_secs(6 * 3600);
const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// A watch that succeeded for this time resets its backoff. If this were shorter, an API server
/// that answers every watch with 410 would be listed once a second.
const FORGIVEN_AFTER: Duration = Duration::from_secs(120);
/// kube's watcher does not list again when an HTTP 410 meets it at the start of a watch; a new one
/// does.
const FAILURES_PER_WATCHER: u32 = 5;

/// What became of one object.
#[derive(Debug)]
pub struct Change<'a, T> {
    /// The object's name.
    pub name: &'a ObjectName,
    /// What was known before.
    pub old: Option<&'a Arc<T>>,
    /// What is known now; `None` when the object is deleted or no longer tracked.
    pub new: Option<&'a Arc<T>>,
    /// The deletion was missed: a new list no longer contains the object.
    pub tombstone: bool,
}

type Listener<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

/// All objects of one kind, as the API server last reported them.
///
/// A feed may be late. It can prove that an object *is* in use; proof that it is *not* requires a
/// live read.
pub struct Feed<T: Tracked> {
    store: RwLock<Store<T>>,
    listeners: RwLock<Vec<Listener<T>>>,
    synced: watch::Sender<bool>,
    metrics: Arc<Metrics>,
}

impl<T: Tracked> Feed<T> {
    /// An empty feed; [`Feed::run`] fills it.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            store: RwLock::default(),
            listeners: RwLock::default(),
            synced: watch::Sender::new(false),
            metrics,
        })
    }

    /// A complete feed that is not run: what a LIST had, for those who read feeds.
    pub fn listed(store: Store<T>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            store: RwLock::new(store),
            listeners: RwLock::default(),
            synced: watch::Sender::new(true),
            metrics,
        })
    }

    /// Calls `listener` after every change, in the order of the changes. It must not block.
    pub fn listen(&self, listener: impl Fn(&Change<'_, T>) + Send + Sync + 'static) {
        self.listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(listener));
    }

    /// What is known. Hold it shortly and never across an `await`.
    pub fn read(&self) -> RwLockReadGuard<'_, Store<T>> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A first complete list has arrived.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits for the first complete list.
    pub async fn synced(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Marks this copy as stale after a write of Volume Warden, so that no reconciler acts on it
    /// twice before the watch catches up.
    pub fn mark_stale(&self, name: &ObjectName, object: &Arc<T>) {
        self.write().mark_stale(name, object);
    }

    /// Watches for ever.
    pub async fn run(self: Arc<Self>, api: Api<T::Wire>) {
        let mut backoff = Backoff::default();
        loop {
            self.watch(&api, &mut backoff).await;
        }
    }

    /// One watcher, until it has failed too often or is due for a fresh list.
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

    /// The list is complete: what it did not have is gone, although no delete was seen.
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
        self.synced.send_replace(true);
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
    /// A feed whose first list is complete and holds these objects.
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

    /// Applies one watch event: the object as it is now, or its last state before deletion.
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
