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

use super::{Backend, Deletion, Failure, Listed, Listing, Outcome};
use disk::Root;
use futures::future::BoxFuture;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// Name of the file that marks a directory as the root of the storage.
pub const MARKER: &str = ".volume-warden-root";

/// Time limit of one call to the backend. A network file system that is gone never answers.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for which [`Directory::open`] waits for the file system: other components of the process
/// start after it.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two attempts to open the root directory.
const OPEN_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of concurrent calls to the file system. A call that hangs counts until it ends.
const MAX_CONCURRENT_CALLS: usize = 4;

/// A storage backend with one directory for each namespace.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
    limit: Duration,
    permits: Arc<Semaphore>,
    /// Whether the root directory was opened once, with its marker file.
    opened: Arc<AtomicBool>,
}

impl Directory {
    /// Opens the storage whose root directory is `root`. If its file system fails or does not
    /// answer, the storage is not ready until the root directory can be opened.
    ///
    /// # Errors
    /// When `root` is not a directory that contains the marker file, or may not be read.
    pub async fn open(root: impl Into<PathBuf>) -> Result<Self, Failure> {
        let directory = Self::at(root.into(), CALL_TIMEOUT);
        directory.open_first(OPEN_TIMEOUT).await?;
        Ok(directory)
    }

    /// Opens the root directory, and waits for it for as long as `limit`. A file system that fails
    /// or does not answer is no error.
    async fn open_first(&self, limit: Duration) -> Result<(), Failure> {
        let opening = timeout(limit, self.on_disk(|_, _| Ok(())));
        let failure = match opening.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(_) => late(limit),
        };
        if !waits_for(&failure) {
            return Err(failure);
        }
        tracing::warn!(%failure, "the root directory of the storage cannot be opened yet; retrying");
        Ok(())
    }

    fn at(root: PathBuf, limit: Duration) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS));
        Self {
            root,
            limit,
            permits,
            opened: Arc::default(),
        }
    }

    /// Opens the root directory, in attempts with this pause, until one succeeds.
    async fn open_in_attempts(&self, pause: Duration) {
        while !self.is_ready() {
            sleep(pause).await;
            let _ = self.on_disk(|_, _| Ok(())).await;
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
        let (permits, opened) = (self.permits.clone(), self.opened.clone());
        let done = async move {
            let permit = permits.acquire_owned().await;
            let (answer, answered) = oneshot::channel();
            let job = move || {
                let _permit = permit;
                let in_time = || Instant::now() < until && !answer.is_closed();
                let done = Root::open(&root).and_then(|root| {
                    opened.store(true, Ordering::Relaxed);
                    work(&root, &in_time)
                });
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
        timeout_at(until, done)
            .await
            .unwrap_or_else(|_| Err(late(self.limit)))
    }
}

impl Backend for Directory {
    fn name(&self) -> &'static str {
        "directory"
    }

    fn list(&self) -> BoxFuture<'_, Result<Listing, Failure>> {
        let limit = self.limit;
        Box::pin(
            self.on_disk(move |root, in_time| {
                root.list(in_time).unwrap_or_else(|| Err(late(limit)))
            }),
        )
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

    fn is_ready(&self) -> bool {
        self.opened.load(Ordering::Relaxed)
    }

    /// Opens the root directory, in attempts until one succeeds, and then waits for `stop`.
    fn run_background(&self, stop: CancellationToken) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let opened = stop.run_until_cancelled(self.open_in_attempts(OPEN_PAUSE));
            if opened.await.is_some() {
                stop.cancelled().await;
            }
        })
    }
}

/// Whether the process starts although the root directory could not be opened: its file system
/// fails or does not answer, which may end.
fn waits_for(failure: &Failure) -> bool {
    matches!(failure.outcome(), Outcome::Transport | Outcome::Timeout)
}

fn late(limit: Duration) -> Failure {
    Failure::timeout(format!(
        "the file system did not answer within {} s",
        limit.as_secs()
    ))
}
