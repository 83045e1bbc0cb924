//! Reads which workloads and custom resources name claims that no pod uses now.

use crate::{
    cluster::ReconcileError,
    hashing::HashMap,
    inventory::{ReferencePath, References, read_workloads},
    objects::ObjectName,
};
use kube::Client;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::Instant};

/// Maximum age of the read on which an announcement may rest; a deletion always requires a new
/// read. Also the minimum delay after a failed read: a kind that cannot be listed causes one read
/// of the namespace a minute, however many claims wait.
pub(super) const NAMES_AGE: Duration = Duration::from_secs(60);

/// Maximum number of namespaces that are read at once: the claims of a class may be due at the same
/// time in all namespaces.
const CONCURRENT: usize = 4;

/// Maximum time of the read of one namespace, whose objects may be very many, or slow to convert.
const LONGEST: Duration = Duration::from_secs(300);

/// Reads the objects of a namespace. Its claims share a read; those of other namespaces do not wait
/// for it, unless [`CONCURRENT`] reads are under way.
pub struct Referrers {
    client: Client,
    paths: Vec<ReferencePath>,
    turns: Semaphore,
    reads: Mutex<HashMap<Arc<str>, Slot>>,
}

/// The last read of a namespace, locked while the next one is under way.
type Slot = Arc<tokio::sync::Mutex<Option<Read>>>;

/// What the workloads and custom resources of one namespace name, or why they could not be read.
struct Read {
    began: Instant,
    references: Result<References, String>,
}

impl Referrers {
    /// Creates a reader. `paths` are those of `--expiry-references`, at which custom resources
    /// name claims.
    pub fn new(client: Client, paths: Vec<ReferencePath>) -> Self {
        Self {
            client,
            paths,
            turns: Semaphore::new(CONCURRENT),
            reads: Mutex::default(),
        }
    }

    /// Returns descriptions of the workloads and custom resources that name the claim, from a read
    /// that began after `since`. A Job that has ended and a VolumeSnapshot do not count: neither
    /// uses the claim again.
    ///
    /// # Errors
    /// When any kind could not be listed.
    pub async fn of(
        &self,
        name: &ObjectName,
        since: Instant,
    ) -> Result<Vec<String>, ReconcileError> {
        let slot = self.slot(&name.namespace);
        let mut last = slot.lock().await;
        let read = match last.take().filter(|read| read.began >= since) {
            Some(read) => read,
            None => self.read(&name.namespace).await,
        };
        let read = last.insert(read);
        match &read.references {
            Ok(references) => Ok(references.to(&name.namespace, &name.name)),
            Err(error) => Err(ReconcileError::after(NAMES_AGE, error.clone())),
        }
    }

    /// Returns the slot of the namespace, and forgets reads that are too old for every claim.
    fn slot(&self, namespace: &Arc<str>) -> Slot {
        let mut reads = self.reads.lock();
        reads.retain(|_, slot| match slot.try_lock() {
            Ok(last) => last
                .as_ref()
                .is_some_and(|read| read.began.elapsed() < NAMES_AGE),
            Err(_) => true,
        });
        reads.entry(namespace.clone()).or_default().clone()
    }

    async fn read(&self, namespace: &Arc<str>) -> Read {
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await;
        let began = Instant::now();
        let listed = read_workloads(&self.client, Some(namespace), &self.paths);
        let references = match tokio::time::timeout(LONGEST, listed).await {
            Ok(mut listed) => {
                listed.workloads.retain(|each| !each.is_finished);
                let error = listed.errors.first().cloned();
                error.map_or_else(|| Ok(References::new(&listed)), Err)
            }
            Err(_) => Err(format!(
                "the objects that may name claims could not be read within {LONGEST:?}"
            )),
        };
        Read { began, references }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    type Count = Arc<AtomicUsize>;

    /// An API server without workloads. It refuses the LIST of the Jobs of the namespace `refused`,
    /// and never answers for namespaces whose names begin with `silent`.
    fn referrers() -> (Referrers, Count) {
        let count = Count::default();
        let lists = count.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            lists.fetch_add(1, Ordering::Relaxed);
            async move {
                if path.contains("/silent") {
                    std::future::pending::<()>().await;
                }
                let refused = path.ends_with("/refused/jobs");
                let status = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"});
                let (code, body) = if refused {
                    (403, status)
                } else {
                    (200, json!({"metadata": {}, "items": []}))
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        let client = Client::new(service, "default");
        (Referrers::new(client, Vec::new()), count)
    }

    async fn is_read(referrers: &Referrers, namespace: &str, claim: &str, since: Instant) -> bool {
        let name = ObjectName::new(namespace, claim);
        referrers.of(&name, since).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn claims_of_a_namespace_share_a_read_also_if_it_failed() {
        for (namespace, succeeds) in [("good", true), ("refused", false)] {
            let (referrers, count) = referrers();
            let since = Instant::now();
            for claim in ["a", "b", "c"] {
                assert_eq!(is_read(&referrers, namespace, claim, since).await, succeeds);
            }
            assert_eq!(count.load(Ordering::Relaxed), 7, "{namespace}: one read");
            tokio::time::advance(NAMES_AGE).await;
            is_read(&referrers, namespace, "a", Instant::now()).await;
            assert_eq!(count.load(Ordering::Relaxed), 14, "{namespace}: a new read");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_does_not_wait_for_the_read_of_one_other() {
        let (referrers, _) = referrers();
        let referrers = Arc::new(referrers);
        let silent = referrers.clone();
        let since = Instant::now();
        let silent = tokio::spawn(async move { is_read(&silent, "silent", "a", since).await });
        tokio::task::yield_now().await;
        assert!(is_read(&referrers, "good", "a", since).await);
        assert_eq!(since.elapsed(), Duration::ZERO);
        assert!(!silent.is_finished());
        silent.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_namespaces_are_read_at_once() {
        let (referrers, count) = referrers();
        let referrers = Arc::new(referrers);
        let since = Instant::now();
        let reads = (0..CONCURRENT + 1).map(|number| {
            let referrers = referrers.clone();
            let namespace = format!("silent-{number}");
            tokio::spawn(async move { is_read(&referrers, &namespace, "a", since).await })
        });
        let reads: Vec<_> = reads.collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let each = count.load(Ordering::Relaxed);
        assert_eq!(each % CONCURRENT, 0, "{each}");
        let ended = futures::future::join_all(reads).await;
        assert!(ended.into_iter().all(|ended| matches!(ended, Ok(false))));
        assert_eq!(
            count.load(Ordering::Relaxed),
            each / CONCURRENT * (CONCURRENT + 1)
        );
    }
}
