//! Storage with one directory for each namespace: that of a provisioner whose paths begin with the
//! namespace, or of static `hostPath` volumes at `<root>/<namespace>/<volume>`.
//!
//! The root has to hold a file [`MARKER`]. Without it nothing is listed and nothing is deleted: a
//! root where nothing is mounted looks empty too. A namespace is a real directory, not a link,
//! with a name that a namespace can have; it goes when it is empty, by `rmdir`.
//!
//! Everything happens relative to one open descriptor of the root, so the marker is looked for in
//! the same directory in which something is then removed, even if another is mounted over it
//! meanwhile. `std` has no such calls; rustix has them, safe, and is part of the program anyway.

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

/// The file that says that a directory is a root.
pub const MARKER: &str = ".volume-warden-root";

/// For one call. A network file system that is gone answers never.
const LIMIT: Duration = Duration::from_secs(20);
/// Calls that are under way at once; one that hangs keeps its place.
const HANDS: usize = 4;

/// A backend with one directory for each namespace.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
    limit: Duration,
    hands: Arc<Semaphore>,
}

impl Directory {
    /// The storage at `root`.
    ///
    /// # Errors
    /// When `root` is no directory that holds the marker, or cannot be read.
    pub async fn open(root: impl Into<PathBuf>) -> Result<Self, Failure> {
        let directory = Self::at(root.into(), LIMIT);
        directory.on_disk(|_, _| Ok(())).await?;
        Ok(directory)
    }

    fn at(root: PathBuf, limit: Duration) -> Self {
        let hands = Arc::new(Semaphore::new(HANDS));
        Self { root, limit, hands }
    }

    /// Runs `work` on the root, and stops waiting after `limit`. The work can check whether the
    /// caller still waits.
    ///
    /// On a thread of its own: the runtime waits for its blocking threads before it ends, and this
    /// one may hang.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Root, &dyn Fn() -> bool) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (root, until) = (self.root.clone(), Instant::now() + self.limit);
        let hands = self.hands.clone();
        let done = async move {
            let hand = hands.acquire_owned().await;
            let (answer, answered) = oneshot::channel();
            let job = move || {
                let _hand = hand;
                let in_time = || Instant::now() < until && !answer.is_closed();
                let done = Root::open(&root).and_then(|root| work(&root, &in_time));
                // The caller may have stopped waiting; then the result is dropped.
                let _ = answer.send(done);
            };
            let thread = thread::Builder::new().name("directory".to_owned());
            let started = thread.spawn(job);
            started.map_err(|error| Failure::server(format!("no thread: {error}")))?;
            let lost = |_| Failure::server("the thread that reads the root ended without a result");
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
            // It may have waited for a disk, and what was true when it was asked is not any more.
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
