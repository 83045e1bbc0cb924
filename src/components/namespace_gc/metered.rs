//! The backend, with its calls counted, and one list for all who ask at the same time.

use super::GcMetrics;
use crate::backend::{Backend, Deletion, Failure, Listed, Listing, Outcome};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

/// From the last look at Kubernetes and the Lease to the end of a deletion, as for every write: see [`crate::cluster::Apply`].
const DELETE_LIMIT: Duration = Duration::from_secs(4);

/// What a list came to, and the how-manieth it was.
type Last = Option<(u64, Result<Arc<Listing>, Failure>)>;

/// See the module.
pub struct Metered {
    backend: Arc<dyn Backend>,
    begun: AtomicU64,
    last: Mutex<Last>,
    metrics: Arc<GcMetrics>,
}

impl Metered {
    /// That backend.
    pub fn new(backend: Arc<dyn Backend>, metrics: Arc<GcMetrics>) -> Self {
        Self {
            backend,
            begun: AtomicU64::new(0),
            last: Mutex::default(),
            metrics,
        }
    }

    /// All namespaces, as a list has them that began after this call: a thousand namespaces that end at once share a few.
    ///
    /// # Errors
    /// When the backend cannot tell all of them.
    pub async fn list(&self) -> Result<Arc<Listing>, Failure> {
        let before = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((number, listing)) = &*last
            && *number > before
        {
            return listing.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let began = Instant::now();
        let listing = self.backend.list().await.map(Arc::new);
        let outcome = match &listing {
            Ok(_) => Outcome::Ok.name(),
            Err(failure) => failure.outcome().name(),
        };
        let metrics = &self.metrics;
        metrics.called("list", outcome, began.elapsed());
        *last = Some((number, listing.clone()));
        listing
    }

    /// See [`Backend::delete`]. Ends soon, because what the deletion was decided by is true for a moment only.
    ///
    /// # Errors
    /// When it is not known what became of the request.
    pub async fn delete(&self, namespace: &Listed) -> Result<Deletion, Failure> {
        let began = Instant::now();
        let deleted = timeout(DELETE_LIMIT, self.backend.delete(namespace)).await;
        let deleted = deleted.unwrap_or_else(|_| Err(late()));
        let outcome = match &deleted {
            Ok(deletion) => deletion.outcome(),
            Err(failure) => failure.outcome(),
        };
        let metrics = &self.metrics;
        metrics.called("delete", outcome.name(), began.elapsed());
        deleted
    }
}

fn late() -> Failure {
    Failure::timeout(format!(
        "the deletion was given up after {} s",
        DELETE_LIMIT.as_secs()
    ))
}
