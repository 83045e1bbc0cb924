//! Live LISTs that many reconciles share.

mod reader;

use super::{evidence::Evidence, page::read_page};
use crate::cluster::api::{ApiOf, Scope, within};
use crate::cluster::watch::Store;
use crate::hashing::HashMap;
use crate::{
    objects::{ObjectName, Tracked},
    telemetry::Metrics,
};
use kube::{Api, Client, Resource, api::ListParams};
use parking_lot::Mutex;
use reader::Reader;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, oneshot},
    time::Instant,
};

/// Time limit of the request for one page of a LIST.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
const PAGE_SIZE: u32 = 500;
/// Maximum age at which the result of a LIST is given to later callers. It leaves time for the
/// writes that rely on the result.
const MAX_RESULT_AGE: Duration = Duration::from_secs(10);
/// Maximum number of concurrent LISTs of one [`SharedList`], all namespaces together, by default:
/// LISTs are the most expensive calls for the API server, and they use memory in this process.
const LISTS_IN_FLIGHT: usize = 8;

type ListResult<T> = Result<Listed<T>, Arc<kube::Error>>;
type Caller<T> = oneshot::Sender<ListResult<T>>;
type Listed<T> = Evidence<Arc<Store<T>>>;

/// The callers that wait for a LIST of one namespace.
struct Pending<T> {
    /// When the present LIST began, if one is under way.
    began: Option<Instant>,
    /// The callers that the present LIST serves.
    present: Vec<Caller<T>>,
    /// The callers that the next LIST serves: no LIST is under way, or the present one began before
    /// the time that they require, so it may lack a change that they know of.
    next: Vec<Caller<T>>,
}

/// Lists the tracked objects of one namespace live and consistently, once for all callers that the
/// same LIST can serve.
///
/// # Guarantees
/// The result of [`SharedList::list`] was read entirely after the call, and that of
/// [`SharedList::list_since`] entirely after a time that the caller names, so it is newer than
/// anything that the caller knew then. At most one LIST per namespace is under way. A failed LIST
/// fails all callers that shared it, and its error is not cached.
pub struct SharedList<T: Tracked> {
    api: ApiOf<T>,
    client: Client,
    /// The callers that wait for a LIST, by namespace.
    pending: Mutex<HashMap<Arc<str>, Pending<T>>>,
    /// The last result for each namespace, removed after `MAX_RESULT_AGE`. A later caller gets it
    /// only if its LIST began after the caller's `since`.
    kept: Mutex<HashMap<Arc<str>, Listed<T>>>,
    in_flight: Semaphore,
    metrics: Arc<Metrics>,
}

impl<T: Tracked> SharedList<T> {
    /// Creates a reader that uses this client. The namespace of a cluster-scoped kind is empty.
    pub fn new(metrics: Arc<Metrics>, client: &Client) -> Arc<Self>
    where
        <T::Wire as Resource>::Scope: Scope<T::Wire>,
    {
        Self::limited(metrics, client, LISTS_IN_FLIGHT)
    }

    /// Creates a reader as [`Self::new`] does, with at most this number of concurrent LISTs.
    pub fn limited(metrics: Arc<Metrics>, client: &Client, lists: usize) -> Arc<Self>
    where
        <T::Wire as Resource>::Scope: Scope<T::Wire>,
    {
        Arc::new(Self {
            api: <T::Wire as Resource>::Scope::api,
            client: client.clone(),
            pending: Mutex::default(),
            kept: Mutex::default(),
            in_flight: Semaphore::new(lists),
            metrics,
        })
    }

    /// Lists all tracked objects of the namespace, read live after this call.
    ///
    /// # Errors
    /// When a page could not be read. The caller must not conclude that an object does not exist.
    pub async fn list(self: &Arc<Self>, namespace: &Arc<str>) -> ListResult<T> {
        self.list_since(namespace, Instant::now()).await
    }

    /// Lists all tracked objects of the namespace, read live after `since`. If a result that began
    /// after `since` and is at most 10 s old exists, it is returned without a new LIST: callers
    /// that arrive one after another then share it.
    ///
    /// # Errors
    /// When a page could not be read. The caller must not conclude that an object does not exist.
    pub async fn list_since(
        self: &Arc<Self>,
        namespace: &Arc<str>,
        since: Instant,
    ) -> ListResult<T> {
        let kept = self
            .kept
            .lock()
            .get(namespace)
            .filter(|kept| kept.began() > since)
            .cloned();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let (caller, answer) = oneshot::channel();
        self.request(namespace, since, caller);
        let gone = |_| {
            Err(Arc::new(kube::Error::Service(
                "the shared LIST was aborted".into(),
            )))
        };
        answer.await.unwrap_or_else(gone)
    }

    fn request(self: &Arc<Self>, namespace: &Arc<str>, since: Instant, caller: Caller<T>) {
        let mut pending = self.pending.lock();
        if let Some(entry) = pending.get_mut(namespace) {
            match entry.began {
                Some(began) if began > since => entry.present.push(caller),
                _ => entry.next.push(caller),
            }
            return;
        }
        let entry = Pending {
            began: None,
            present: Vec::new(),
            next: vec![caller],
        };
        pending.insert(namespace.clone(), entry);
        let mut reader = Reader {
            lists: self.clone(),
            namespace: namespace.clone(),
            ended: false,
        };
        // The LIST runs in a separate task, so that it continues for the remaining callers when one
        // of them stops waiting.
        #[expect(
            clippy::disallowed_methods,
            reason = "the LIST goes on for the callers that still wait"
        )]
        tokio::spawn(async move { reader.run().await });
    }

    async fn read(self: &Arc<Self>, namespace: &Arc<str>, began: Instant) -> ListResult<T> {
        self.metrics.watches.live_listed(T::KIND);
        let store = read_all(&(self.api)(self.client.clone(), namespace)).await?;
        let listed = Evidence::new(Arc::new(store), began);
        self.keep(namespace, &listed);
        Ok(listed)
    }

    /// Keeps the result of a LIST for later callers until it is too old.
    fn keep(self: &Arc<Self>, namespace: &Arc<str>, listed: &Listed<T>) {
        self.kept.lock().insert(namespace.clone(), listed.clone());
        let (lists, namespace, began) = (self.clone(), namespace.clone(), listed.began());
        #[expect(clippy::disallowed_methods, reason = "the task only removes an entry")]
        tokio::spawn(async move {
            tokio::time::sleep_until(began + MAX_RESULT_AGE).await;
            let mut kept = lists.kept.lock();
            // If a later LIST has replaced the result, its own task removes it.
            if kept
                .get(&namespace)
                .is_some_and(|kept| kept.began() == began)
            {
                kept.remove(&namespace);
            }
        });
    }
}

/// Lists all tracked objects at the endpoint `api`, read entirely after this call.
///
/// # Errors
/// When a page could not be read. The caller must not conclude that an object does not exist.
pub async fn read_all<T: Tracked>(api: &Api<T::Wire>) -> kube::Result<Store<T>> {
    // Without a resourceVersion, the API server answers with the newest state, and all pages come
    // from one snapshot.
    let mut params = ListParams::default().limit(PAGE_SIZE);
    params.label_selector = T::LABELS.map(str::to_owned);
    params.field_selector = T::FIELDS.map(str::to_owned);
    let mut store = Store::default();
    loop {
        let read = within(PAGE_LIMIT, read_page::<T>(api, &params)).await?;
        for wire in read.items {
            if let Some(name) = ObjectName::of(kube::Resource::meta(&wire)) {
                store.put(name, T::track(wire).map(Arc::new));
            }
        }
        match read.next {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(store),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::test_server::answering_after, objects::Pod};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// An API server whose pod LIST takes a second; its n-th answer has n pods that use a claim.
    fn lists() -> (Arc<SharedList<Pod>>, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        let client = answering_after(Duration::from_secs(1), move |_, _| {
            let round = counter.fetch_add(1, Ordering::SeqCst) + 1;
            let pod = |n| {
                serde_json::json!({"metadata": {"name": format!("p{n}"), "namespace": "ns", "uid": format!("{n}")},
                        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}})
            };
            let items: Vec<_> = (0..round).map(pod).collect();
            let list = serde_json::json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items});
            (200, list)
        });
        (SharedList::new(Arc::new(Metrics::new()), &client), count)
    }

    #[tokio::test(start_paused = true)]
    async fn callers_before_the_list_began_share_it_and_later_callers_do_not() {
        let (lists, count) = lists();
        let ns: Arc<str> = "ns".into();
        let request = |after: u64| {
            let (lists, ns) = (lists.clone(), ns.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(after)).await;
                lists.list(&ns).await.expect("lists").value.len()
            })
        };
        // Two callers arrive within the gathering time, two during the first LIST and one during
        // the second.
        let callers = [
            request(0),
            request(10),
            request(500),
            request(900),
            request(1500),
        ];
        let mut seen = Vec::new();
        for caller in callers {
            seen.push(caller.await.expect("answers"));
        }
        assert_eq!(seen, [1, 1, 2, 2, 3]);
        assert_eq!(count.load(Ordering::SeqCst), 3);
        assert!(lists.pending.lock().is_empty(), "no reader is left");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_serves_callers_that_know_nothing_newer_for_ten_seconds() {
        let (lists, _) = lists();
        let ns: Arc<str> = "ns".into();
        let before = Instant::now();
        let size = async |since| {
            lists
                .list_since(&ns, since)
                .await
                .expect("lists")
                .value
                .len()
        };
        assert_eq!(size(before).await, 1);
        assert_eq!(size(before).await, 1, "the same answer");
        let since = Instant::now();
        assert_eq!(size(since).await, 2, "something was seen after it began");
        assert_eq!(size(before).await, 2, "the later answer is kept");
        tokio::time::sleep(MAX_RESULT_AGE).await;
        assert!(lists.kept.lock().is_empty(), "it is too old");
        assert_eq!(size(before).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_under_way_serves_callers_that_know_nothing_newer() {
        let (lists, count) = lists();
        let ns: Arc<str> = "ns".into();
        let before = Instant::now();
        let late = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            lists.list_since(&ns, before).await
        };
        let (first, late) = tokio::join!(lists.list(&ns), late);
        assert_eq!(first.expect("lists").value.len(), 1);
        assert_eq!(late.expect("lists").value.len(), 1);
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_shares_a_list_but_does_not_put_it_off_for_ever() {
        let (lists, count) = lists();
        let ns: Arc<str> = "ns".into();
        // One caller arrives every 10 ms, for six seconds.
        let callers: Vec<_> = (0..600)
            .map(|index| {
                let (lists, ns) = (lists.clone(), ns.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(index * 10)).await;
                    lists.list(&ns).await.expect("lists");
                })
            })
            .collect();
        for caller in callers {
            caller.await.expect("answers");
        }
        // A LIST takes a second on this API server, so only this number of LISTs fits.
        let lists = count.load(Ordering::SeqCst);
        assert!((5..=7).contains(&lists), "{lists}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_whose_callers_all_left_delays_no_other() {
        let (lists, _) = lists();
        let ns: Arc<str> = "ns".into();
        let left = tokio::time::timeout(Duration::from_millis(500), lists.list(&ns)).await;
        assert!(left.is_err());
        assert!(lists.list(&ns).await.is_ok());
    }
}
