//! A storage backend with one directory for each namespace, as created by a provisioner whose paths
//! begin with the namespace, or by static `hostPath` volumes at `<root>/<namespace>/<volume>`.
//!
//! The root directory must contain the file [`MARKER`]. Without it nothing is listed or deleted:
//! the file system may not be mounted there, and an empty root would mean that the storage has no
//! namespace any more. A namespace is a real directory, not a link, with a valid namespace name;
//! `rmdir` removes it if it is empty.
//!
//! All operations of a call are relative to one open descriptor of the root. So the marker is
//! checked in the same directory from which a namespace is removed, even if another file system is
//! mounted over the root meanwhile. `std` has no such operations; rustix, which is a dependency
//! anyway, has safe ones.

#[cfg_attr(not(unix), path = "unsupported.rs")]
mod disk;
#[cfg(test)]
mod staged;
#[cfg(test)]
mod tests;

use super::{Backend, Deletion, Failure, Listed, Listing};
use disk::Root;
use futures::future::BoxFuture;
use std::{path::PathBuf, sync::Arc, thread, time::Duration};
use tokio::{
    sync::{Semaphore, oneshot},
    time::Instant,
};

/// Name of the file that marks a directory as the root of the storage.
pub const MARKER: &str = ".volume-warden-root";

/// Time limit of one call to the backend. A network file system that is gone never answers.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of concurrent calls to the file system. A call that hangs counts until it ends.
const MAX_CONCURRENT_CALLS: usize = 4;

/// A storage backend with one directory for each namespace.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
    limit: Duration,
    permits: Arc<Semaphore>,
}

impl Directory {
    /// Opens the storage whose root directory is `root`.
    ///
    /// # Errors
    /// When `root` is not a directory that contains the marker file, or cannot be read.
    pub async fn open(root: impl Into<PathBuf>) -> Result<Self, Failure> {
        let directory = Self::at(root.into(), CALL_TIMEOUT);
        directory.on_disk(|_, _| Ok(())).await?;
        Ok(directory)
    }

    fn at(root: PathBuf, limit: Duration) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS));
        Self {
            root,
            limit,
            permits,
        }
    }

    /// Runs `work` on the root directory, and stops waiting for it after `limit`. The work can
    /// check whether the caller still waits.
    ///
    /// The work runs on a thread of its own, because it may hang: at shutdown, the tokio runtime
    /// would wait for a thread of its blocking pool.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Root, &dyn Fn() -> bool) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (root, until) = (self.root.clone(), Instant::now() + self.limit);
        let permits = self.permits.clone();
        let done = async move {
            let permit = permits.acquire_owned().await;
            let (answer, answered) = oneshot::channel();
            let job = move || {
                let _permit = permit;
                let in_time = || Instant::now() < until && !answer.is_closed();
                let done = Root::open(&root).and_then(|root| work(&root, &in_time));
                // If the caller has stopped waiting, the result is dropped.
                let _ = answer.send(done);
            };
            let thread = thread::Builder::new().name("directory".to_owned());
            #[expect(
                clippy::disallowed_methods,
                reason = "its result is awaited below, and a lost one is an error"
            )]
            let started = thread.spawn(job);
            started.map_err(|error| Failure::server(format!("cannot start a thread: {error}")))?;
            let lost = |_| {
                Failure::server(
                    "the thread that calls the file system of the storage \
                ended without a result",
                )
            };
            answered.await.map_err(lost)?
        };
        tokio::time::timeout_at(until, done)
            .await
            .unwrap_or_else(|_| Err(late(self.limit)))
    }
}

impl Backend for Directory {
    fn name(&self) -> &'static str {
        "directory"
    }

    fn list(&self) -> BoxFuture<'_, Result<Listing, Failure>> {
        Box::pin(self.on_disk(|root, _| root.list()))
    }

    fn delete<'a>(&'a self, namespace: &'a Listed) -> BoxFuture<'a, Result<Deletion, Failure>> {
        let (namespace, limit) = (namespace.clone(), self.limit);
        Box::pin(self.on_disk(move |root, in_time| {
            // The deletion checks again whether the caller still waits, because a slow disk may
            // have delayed it.
            root.remove(&namespace, in_time)
                .unwrap_or_else(|| Err(late(limit)))
        }))
    }
}

fn late(limit: Duration) -> Failure {
    Failure::timeout(format!(
        "the file system did not answer within {} s",
        limit.as_secs()
    ))
}
