//! Runs the reconciles of a component, only while this replica leads. Each key is reconciled in its
//! own task, and reconciled again after a panic.

use super::work_queue::WorkQueue;
use crate::cluster::{api::for_log, leader::Leadership};
use crate::telemetry::Metrics;
use futures::FutureExt;
use std::{fmt::Display, hash::Hash, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::{sync::Notify, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Resync period: every key of [`Reconcile::candidates`] is queued again, so that objects whose
/// watch event was lost are reconciled, too. The informers of kube-controller-manager resync every
/// 12 to 24 hours.
const RESYNC_PERIOD: Duration = Duration::from_secs(600);
/// Minimum time between two resyncs, if [`Reconciler::again`] requests one.
const MIN_RESYNC_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of keys that a component reconciles at once. Each of them is a task with its
/// views and live reads; the other keys wait in the queue. With a lower limit, fewer keys of one
/// namespace would share a live LIST.
const MAX_CONCURRENT: usize = 1000;
/// The number of concurrent reconciles that only urgent keys may use, so that urgent keys do not
/// wait for the others.
const RESERVED: usize = 200;
const NORMAL: usize = MAX_CONCURRENT - RESERVED;

/// When a key is reconciled again, after a success or an error.
pub type Reconciled = Result<Requeue, ReconcileError>;

/// When to reconcile a key again after a success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// The key is reconciled again when an event arrives for it, or at a resync if it is a
    /// candidate: every ten minutes, and after a kind was listed again.
    OnEvent,
    /// The key is reconciled again after this delay at the latest. The sentence states what the
    /// key waits for.
    After(Duration, String),
}

/// Why a reconcile failed, as a sentence for the log. The key is reconciled again.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ReconcileError {
    message: String,
    backoff: Backoff,
}

#[derive(Clone, Copy, Debug)]
enum Backoff {
    /// The key is reconciled again when an event arrives, or after a delay that doubles with each
    /// failure up to five minutes, and is at least this long.
    Exponential(Duration),
    /// The key is reconciled again when an event arrives, or after this delay, which stays the
    /// same.
    Fixed(Duration),
}

impl ReconcileError {
    /// Returns a function that turns the cause into an error which says that something could not be
    /// read.
    pub fn unread<E: Display>(what: impl Display) -> impl FnOnce(E) -> Self {
        move |error| Self::new(format!("{what} could not be read: {error}"))
    }

    /// Creates an error after which the key is reconciled again with exponential backoff.
    pub fn new(message: impl Into<String>) -> Self {
        Self::after(Duration::ZERO, message)
    }

    /// Creates an error after which the key is reconciled again with exponential backoff, but not
    /// before `at_least` has passed unless an event arrives.
    pub fn after(at_least: Duration, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            backoff: Backoff::Exponential(at_least),
        }
    }

    /// Creates an error after which the key is reconciled again after `delay` unless an event
    /// arrives, because the failed action has its own schedule.
    pub fn on_schedule(delay: Duration, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            backoff: Backoff::Fixed(delay),
        }
    }
}

/// What a component reconciles, and how.
pub trait Reconcile: Send + Sync + 'static {
    /// The name of the component, as in the CLI.
    const COMPONENT: &'static str;

    /// Identifies what one reconcile is about, in most components the name of an object.
    type Key: Clone + Eq + Hash + Ord + Display + Send + Sync + 'static;

    /// Returns all keys that may need work now, according to the caches.
    fn candidates(&self) -> Vec<Self::Key>;

    /// Returns whether a key of [`Self::candidates`] is urgent, because its reconcile may have to
    /// write what protects data. An urgent key does not wait for keys that are not urgent; see
    /// [`WorkQueue::add_urgent`].
    fn is_urgent(&self, _key: &Self::Key) -> bool {
        false
    }

    /// Reconciles what the key identifies, by the rule of the component.
    ///
    /// # Errors
    /// When the reconcile failed. The key is then reconciled again even without a new event.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Reconciled> + Send;
}

/// Runs the reconciles of one component while this replica leads.
pub struct Reconciler<R: Reconcile> {
    /// The reconciler of the component.
    pub reconcile: Arc<R>,
    /// The queue of the keys to reconcile.
    pub queue: Arc<WorkQueue<R::Key>>,
    /// Whether this replica leads.
    pub leadership: Leadership,
    /// Notified when all candidates are to be reconciled soon: a namespace has opted out, or in
    /// again, or a kind was listed again.
    pub again: Arc<Notify>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
}

impl<R: Reconcile> Reconciler<R> {
    /// Reconciles until `stop`, while this replica leads. Each time it becomes the leader, it
    /// begins with all candidates.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            self.queue.close();
            // The gauge would keep the last depth for as long as this replica does not lead.
            self.metrics.work.queue_depth(R::COMPONENT, 0);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.leadership.gained() => {}
            }
            // From here on, each event adds its key. The closed queue dropped the keys of earlier
            // events; `work` begins with all candidates, which include them.
            self.queue.open();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.leadership.lost() => {}
                () = self.work() => {}
            }
        }
    }

    /// Reconciles each key in its own task, because tasks that need the same live read share it.
    /// [`Apply`](crate::cluster::Apply) limits their writes.
    async fn work(&self) {
        let mut tasks = JoinSet::new();
        let mut last = Instant::now();
        let mut next = last;
        loop {
            let running = tasks.len();
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(next) => {
                    let candidates = self.reconcile.candidates();
                    candidates.into_iter().for_each(|key| self.enqueue(key));
                    last = Instant::now();
                    next = last + RESYNC_PERIOD;
                }
                () = self.again.notified() => next = next.min(last + MIN_RESYNC_INTERVAL),
                Some(Ok((key, started, outcome))) = tasks.join_next() => self.finish(&key, started, outcome),
                key = self.next(running) => {
                    let reconcile = self.reconcile.clone();
                    let started = Instant::now();
                    let span = tracing::debug_span!("reconcile", component = R::COMPONENT, object = %key);
                    let task = async move {
                        let outcome = AssertUnwindSafe(reconcile.reconcile(&key)).catch_unwind().await;
                        (key, started, outcome.unwrap_or_else(|_| Err(ReconcileError::new("the reconcile panicked; this is a bug"))))
                    };
                    // The reconcile is boxed: a task is aligned to 128 bytes, and glibc before 2.38
                    // does not reuse large blocks with this alignment well.
                    tasks.spawn(Box::pin(task.instrument(span)));
                }
            }
            self.metrics
                .work
                .queue_depth(R::COMPONENT, self.queue.depth() + tasks.len());
        }
    }

    fn enqueue(&self, candidate: R::Key) {
        if self.reconcile.is_urgent(&candidate) {
            self.queue.add_urgent(candidate);
        } else {
            self.queue.add(candidate);
        }
    }

    /// Takes the next key, as soon as one more task may run beside the `running` ones.
    async fn next(&self, running: usize) -> R::Key {
        match running {
            ..NORMAL => self.queue.take().await,
            NORMAL..MAX_CONCURRENT => self.queue.take_urgent().await,
            _ => std::future::pending().await,
        }
    }

    fn finish(&self, key: &R::Key, started: Instant, outcome: Reconciled) {
        self.metrics
            .work
            .reconciled(R::COMPONENT, started.elapsed(), outcome.is_ok());
        match outcome {
            Ok(Requeue::OnEvent) => self.queue.done(key),
            Ok(Requeue::After(delay, reason)) => {
                self.queue.later(key, delay);
                tracing::debug!(component = R::COMPONENT, object = %key, %reason, ?delay, "the \
                    reconcile succeeded; the object is reconciled again after the delay");
            }
            Err(error) => {
                let delay = match error.backoff {
                    Backoff::Exponential(at_least) => self.queue.failed(key, at_least),
                    Backoff::Fixed(delay) => {
                        self.queue.failed_on_schedule(key, delay);
                        delay
                    }
                };
                let error = for_log(&error);
                tracing::info!(component = R::COMPONENT, object = %key, %error, ?delay, "reconcile failed");
            }
        }
    }
}

#[cfg(test)]
#[path = "reconciler_tests.rs"]
mod tests;
