//! The backend with metrics for its calls. Concurrent callers share one list.

use super::GcMetrics;
use crate::{
    backend::{Backend, Deletion, Failure, Listed, Listing, Outcome},
    cluster::WRITE_TIMEOUT,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

/// The sequence number and the result of the last list.
type Last = Option<(u64, Result<Arc<Listing>, Failure>)>;

/// The backend with metrics and shared lists.
pub struct MeteredBackend {
    backend: Arc<dyn Backend>,
    begun: AtomicU64,
    last: Mutex<Last>,
    metrics: Arc<GcMetrics>,
}

impl MeteredBackend {
    /// Wraps the backend, so that its calls are counted and its lists shared.
    pub fn new(backend: Arc<dyn Backend>, metrics: Arc<GcMetrics>) -> Self {
        Self {
            backend,
            begun: AtomicU64::new(0),
            last: Mutex::default(),
            metrics,
        }
    }

    /// Returns all namespaces of the backend, from a list that began after this call. Callers that
    /// wait at the same time share one list.
    ///
    /// # Errors
    /// If the backend cannot list all its namespaces.
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

    /// Deletes a namespace, see [`Backend::delete`], within a short time limit, because the live
    /// read that permits the deletion must be recent.
    ///
    /// # Errors
    /// If the backend refuses access, fails or does not answer in time. The namespace may have been
    /// deleted nevertheless.
    pub async fn delete(&self, namespace: &Listed) -> Result<Deletion, Failure> {
        let began = Instant::now();
        let deleted = timeout(WRITE_TIMEOUT, self.backend.delete(namespace)).await;
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
        "the deletion timed out after {} s",
        WRITE_TIMEOUT.as_secs()
    ))
}
