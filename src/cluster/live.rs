//! Live reads that many reconciles share.

use super::{client::within, store::Store};
use crate::{
    objects::{ObjectName, Tracked},
    telemetry::Metrics,
};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use kube::{Api, api::ListParams};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// A LIST begins when nobody has asked for so long: a burst of deletions then shares one.
const QUIET: Duration = Duration::from_millis(20);
/// But it begins, however many go on asking.
const PATIENCE: Duration = Duration::from_millis(500);
/// For each page.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
const PAGE_SIZE: u32 = 500;

type Answer<T> = Result<Arc<Store<T>>, Arc<kube::Error>>;
/// The namespace's objects of that kind.
type ApiOf<T> = Box<dyn Fn(&str) -> Api<<T as Tracked>::Wire> + Send + Sync>;
type Round<T> = Shared<BoxFuture<'static, Answer<T>>>;

/// Lists one namespace live and consistently, once for everybody who asked before the LIST began.
///
/// # Guarantees
/// The answer of [`SharedList::list`] was read entirely after the call: whatever its caller knew before calling is older than
/// the answer. At most one LIST per namespace is under way. A failed LIST fails everybody who shared it and is not kept.
pub struct SharedList<T: Tracked> {
    api: ApiOf<T>,
    rounds: Mutex<HashMap<Arc<str>, Rounds<T>>>,
    metrics: Arc<Metrics>,
}

struct Rounds<T> {
    /// Nobody may join it any more.
    running: Option<Round<T>>,
    /// Not begun; whoever asks now joins it.
    waiting: Option<Round<T>>,
    /// How often it was asked.
    asked: u64,
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self {
            running: None,
            waiting: None,
            asked: 0,
        }
    }
}

impl<T: Tracked> SharedList<T> {
    /// Lists with what `api` makes of a namespace.
    pub fn new(
        metrics: Arc<Metrics>,
        api: impl Fn(&str) -> Api<T::Wire> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            api: Box::new(api),
            rounds: Mutex::default(),
            metrics,
        })
    }

    /// All objects of the namespace, read live after this call.
    ///
    /// # Errors
    /// When any page could not be read. Nothing may be concluded then.
    pub async fn list(self: &Arc<Self>, namespace: &Arc<str>) -> Answer<T> {
        let round = self.join(namespace);
        round.await
    }

    fn join(self: &Arc<Self>, namespace: &Arc<str>) -> Round<T> {
        let mut rounds = self.lock();
        let rounds = rounds.entry(namespace.clone()).or_default();
        rounds.asked += 1;
        if let Some(waiting) = &rounds.waiting {
            return waiting.clone();
        }
        let before = rounds.running.take();
        let round = self
            .clone()
            .round(namespace.clone(), before)
            .boxed()
            .shared();
        rounds.waiting = Some(round.clone());
        round
    }

    async fn round(self: Arc<Self>, namespace: Arc<str>, before: Option<Round<T>>) -> Answer<T> {
        if let Some(before) = before {
            drop(before.await);
        }
        self.gather(&namespace).await;
        self.close(&namespace);
        let answer = self.read(&namespace).await;
        self.forget(&namespace);
        answer.map(Arc::new).map_err(Arc::new)
    }

    /// Waits until the burst is over, or long enough.
    async fn gather(&self, namespace: &Arc<str>) {
        let asked = || self.lock().get(namespace).map(|rounds| rounds.asked);
        let began = Instant::now();
        let mut before = None;
        while before != asked() && began.elapsed() < PATIENCE {
            before = asked();
            tokio::time::sleep(QUIET).await;
        }
    }

    /// The LIST is about to begin: who asks from now on may know more than it will show.
    fn close(&self, namespace: &Arc<str>) {
        if let Some(rounds) = self.lock().get_mut(namespace) {
            rounds.running = rounds.waiting.take();
        }
    }

    /// Without this the last answer of every namespace would stay in memory.
    fn forget(&self, namespace: &Arc<str>) {
        let mut rounds = self.lock();
        if rounds
            .get(namespace)
            .is_some_and(|rounds| rounds.waiting.is_none())
        {
            rounds.remove(namespace);
        }
    }

    async fn read(&self, namespace: &str) -> kube::Result<Store<T>> {
        self.metrics.live_listed(T::KIND);
        let api = (self.api)(namespace);
        // No resourceVersion: the API server answers with the newest state, and pages come from one snapshot of it.
        let mut page = ListParams::default().limit(PAGE_SIZE);
        let mut store = Store::default();
        loop {
            let list = within(PAGE_LIMIT, api.list(&page)).await?;
            for wire in list.items {
                if let Some(name) = ObjectName::of(kube::Resource::meta(&wire)) {
                    store.put(name, T::track(wire).map(Arc::new));
                }
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(store),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Rounds<T>>> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Pod;
    use kube::{Client, client::Body};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// An API server whose pod LIST takes a second; the n-th answer has n pods that use a claim.
    fn lists() -> (Arc<SharedList<Pod>>, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let round = counter.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let pod = |n| {
                    serde_json::json!({"metadata": {"name": format!("p{n}"), "namespace": "ns", "uid": format!("{n}")},
                        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}})
                };
                let items: Vec<_> = (0..round).map(pod).collect();
                let list = serde_json::json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items});
                Ok::<_, std::io::Error>(http::Response::new(Body::from(
                    list.to_string().into_bytes(),
                )))
            }
        });
        let client = Client::new(service, "default");
        (
            SharedList::new(Arc::new(Metrics::new()), move |ns| {
                Api::namespaced(client.clone(), ns)
            }),
            count,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn who_asked_before_the_list_began_shares_it_and_later_askers_do_not() {
        let (lists, count) = lists();
        let ns: Arc<str> = "ns".into();
        let ask = |after: u64| {
            let (lists, ns) = (lists.clone(), ns.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(after)).await;
                lists.list(&ns).await.expect("lists").len()
            })
        };
        // Two within the gathering time; two while the first LIST is under way; one while the second is.
        let askers = [ask(0), ask(10), ask(500), ask(900), ask(1500)];
        let mut seen = Vec::new();
        for asker in askers {
            seen.push(asker.await.expect("answers"));
        }
        assert_eq!(seen, [1, 1, 2, 2, 3]);
        assert_eq!(count.load(Ordering::SeqCst), 3);
        assert!(lists.lock().is_empty(), "no answer is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_shares_a_list_but_does_not_put_it_off_for_ever() {
        let (lists, count) = lists();
        let ns: Arc<str> = "ns".into();
        // Somebody asks every 10 ms, for six seconds.
        let askers: Vec<_> = (0..600)
            .map(|index| {
                let (lists, ns) = (lists.clone(), ns.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(index * 10)).await;
                    lists.list(&ns).await.expect("lists");
                })
            })
            .collect();
        for asker in askers {
            asker.await.expect("answers");
        }
        assert_eq!(count.load(Ordering::SeqCst), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_whose_askers_all_left_holds_up_nobody() {
        let (lists, _) = lists();
        let ns: Arc<str> = "ns".into();
        let left = tokio::time::timeout(Duration::from_millis(500), lists.list(&ns)).await;
        assert!(left.is_err());
        assert!(lists.list(&ns).await.is_ok());
    }
}
