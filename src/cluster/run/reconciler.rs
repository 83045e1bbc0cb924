//! Runs a component's reconciles: only while this replica leads, each object in one task, nothing
//! lost to a panic.

use super::work_queue::WorkQueue;
use crate::cluster::leader::Leadership;
use crate::telemetry::Metrics;
use futures::FutureExt;
use std::{fmt::Display, hash::Hash, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// The slow pass over everything, in case an event was lost. Kubernetes' informers do this every
/// half day.
const FULL_PASS: Duration = Duration::from_secs(600);

/// Keys that a component reconciles at once. Each is a task with its views and live reads; the rest wait in the queue as keys.
/// Fewer would make keys of one namespace share fewer live LISTs.
const MAX_CONCURRENT: usize = 1000;
/// The part of them that only urgent keys may use, so that those do not wait for the others.
const RESERVED: usize = 200;
const NORMAL: usize = MAX_CONCURRENT - RESERVED;

/// Why an object has to be reconciled again, as a sentence for the log.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Retry {
    why: String,
    at_least: Duration,
    /// Nothing went wrong.
    planned: bool,
    /// `at_least` is how long it takes, however often it failed before.
    exact: bool,
}

impl Retry {
    /// After a while that doubles with each failure.
    pub fn new(why: impl Into<String>) -> Self {
        Self::after(Duration::ZERO, why)
    }

    /// The same, and not before `at_least` has passed unless something happens: looking earlier
    /// would see nothing new.
    pub fn after(at_least: Duration, why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            at_least,
            planned: false,
            exact: false,
        }
    }

    /// Not before `delay` has passed unless something happens: nothing went wrong, it is only too
    /// early.
    pub fn later(delay: Duration, why: impl Into<String>) -> Self {
        Self {
            planned: true,
            ..Self::on_schedule(delay, why)
        }
    }

    /// Retries after `delay` unless an event arrives first: an action failed that has its own
    /// schedule.
    pub fn on_schedule(delay: Duration, why: impl Into<String>) -> Self {
        Self {
            exact: true,
            ..Self::after(delay, why)
        }
    }
}

/// The reconciler of one component.
pub trait Reconcile: Send + Sync + 'static {
    /// The component's name, as in the CLI.
    const COMPONENT: &'static str;

    /// What is looked at, mostly the name of an object.
    type Key: Clone + Eq + Hash + Ord + Display + Send + Sync + 'static;

    /// All keys that may need work now, according to the caches.
    fn candidates(&self) -> Vec<Self::Key>;

    /// Reconciles one object by its rule.
    ///
    /// # Errors
    /// When the object has to be reconciled again even without a new event.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<(), Retry>> + Send;
}

/// Runs the reconciles of one component.
pub struct Reconciler<R: Reconcile> {
    /// What to do with an object.
    pub reconcile: Arc<R>,
    /// Which objects.
    pub queue: Arc<WorkQueue<R::Key>>,
    /// Whether to.
    pub leadership: Leadership,
    /// Where to count.
    pub metrics: Arc<Metrics>,
}

impl<R: Reconcile> Reconciler<R> {
    /// Works until `stop`: whenever this replica leads, from everything there is to do.
    pub async fn run(self, stop: CancellationToken) {
        self.metrics.work.reconciler_begun(R::COMPONENT);
        loop {
            self.queue.close();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.leadership.gained() => {}
            }
            // From here on every event counts, and whatever happened before is among the
            // candidates.
            self.queue.open();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.leadership.lost() => {}
                () = self.work() => {}
            }
        }
    }

    /// Runs one task for each key, because tasks that need the same live read share it. [`super::Apply`] limits their writes.
    async fn work(&self) {
        let mut tasks = JoinSet::new();
        let mut pass = tokio::time::interval(FULL_PASS);
        pass.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = pass.tick() => self.reconcile.candidates().into_iter().for_each(|key| self.queue.add(key)),
                key = self.next(tasks.len()) => {
                    let reconcile = self.reconcile.clone();
                    let started = Instant::now();
                    let span = tracing::debug_span!("reconcile", component = R::COMPONENT, object = %key);
                    tasks.spawn(async move {
                        let outcome = AssertUnwindSafe(reconcile.reconcile(&key)).catch_unwind().await;
                        (key, started, outcome.unwrap_or_else(|_| Err(Retry::new("the reconcile panicked; this is a bug"))))
                    }.instrument(span));
                }
                Some(Ok((key, started, outcome))) = tasks.join_next() => self.finish(&key, started, outcome),
            }
            self.metrics
                .work
                .queue_depth(R::COMPONENT, self.queue.len() + tasks.len());
        }
    }

    /// The next key, as soon as one more may run beside these.
    async fn next(&self, running: usize) -> R::Key {
        match running {
            ..NORMAL => self.queue.take().await,
            NORMAL..MAX_CONCURRENT => self.queue.take_urgent().await,
            _ => std::future::pending().await,
        }
    }

    fn finish(&self, key: &R::Key, started: Instant, outcome: Result<(), Retry>) {
        let settled = outcome.as_ref().err().is_none_or(|retry| retry.planned);
        self.metrics
            .work
            .reconciled(R::COMPONENT, started.elapsed(), settled);
        match outcome {
            Ok(()) => self.queue.done(key),
            Err(retry) if retry.exact => {
                self.queue.later(key, retry.at_least);
                tracing::debug!(component = R::COMPONENT, object = %key, %retry, delay = ?retry.at_least, "looking later");
            }
            Err(retry) => {
                let delay = self.queue.failed(key, retry.at_least);
                tracing::info!(component = R::COMPONENT, object = %key, %retry, ?delay, "looking again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::Elector, objects::ObjectName};
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };
    use tokio::sync::Semaphore;

    #[derive(Default)]
    struct Clumsy {
        seen: Mutex<Vec<String>>,
    }

    impl Reconcile for Clumsy {
        const COMPONENT: &'static str = "clumsy";
        type Key = ObjectName;

        fn candidates(&self) -> Vec<ObjectName> {
            vec![ObjectName::new("ns", "candidate")]
        }

        async fn reconcile(&self, name: &ObjectName) -> Result<(), Retry> {
            let first = {
                let mut seen = self.seen.lock().expect("lock");
                seen.push(name.name.to_string());
                seen.iter().filter(|each| **each == *name.name).count() == 1
            };
            assert!(&*name.name != "panics" || !first, "on purpose");
            Ok(())
        }
    }

    /// Finishes a key whenever the test says so.
    struct Slow {
        started: AtomicUsize,
        finish: Semaphore,
    }

    impl Reconcile for Slow {
        const COMPONENT: &'static str = "slow";
        type Key = ObjectName;

        fn candidates(&self) -> Vec<ObjectName> {
            let names = 0..NORMAL + 5;
            names
                .map(|index| ObjectName::new("ns", index.to_string()))
                .collect()
        }

        async fn reconcile(&self, _: &ObjectName) -> Result<(), Retry> {
            self.started.fetch_add(1, Ordering::SeqCst);
            self.finish.acquire().await.expect("open").forget();
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn concurrency_is_limited_and_urgent_keys_do_not_wait() {
        let (lead, leadership) = Elector::by_hand();
        let slow = Slow {
            started: AtomicUsize::new(0),
            finish: Semaphore::new(0),
        };
        let (reconcile, queue) = (Arc::new(slow), Arc::new(WorkQueue::default()));
        let reconciler = Reconciler {
            reconcile: reconcile.clone(),
            queue: queue.clone(),
            leadership,
            metrics: Arc::new(Metrics::new()),
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(reconciler.run(stop.clone()));
        lead.send_replace(Some(Instant::now() + Duration::from_secs(60)));
        let started = async |expected| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(reconcile.started.load(Ordering::SeqCst), expected);
        };
        started(NORMAL).await;
        assert_eq!(queue.len(), 5, "the rest waits as keys");
        for index in 0..=RESERVED {
            queue.add_urgent(ObjectName::new("ns", format!("urgent-{index}")));
        }
        started(MAX_CONCURRENT).await;
        reconcile.finish.add_permits(MAX_CONCURRENT);
        started(MAX_CONCURRENT + 6).await;
        stop.cancel();
        task.await.expect("ends");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_costs_one_retry_and_candidates_come_with_the_lease() {
        let (lead, leadership) = Elector::by_hand();
        let (reconcile, queue) = (Arc::new(Clumsy::default()), Arc::new(WorkQueue::default()));
        let metrics = Arc::new(Metrics::new());
        let reconciler = Reconciler {
            reconcile: reconcile.clone(),
            queue: queue.clone(),
            leadership,
            metrics,
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(reconciler.run(stop.clone()));
        let seen = || reconcile.seen.lock().expect("lock").join(" ");

        queue.add(ObjectName::new("ns", "before"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(seen(), "", "nothing is reconciled without the lease");

        lead.send_replace(Some(Instant::now() + Duration::from_secs(10)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(seen(), "candidate");
        queue.add(ObjectName::new("ns", "panics"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(seen(), "candidate panics panics");

        lead.send_replace(None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.add(ObjectName::new("ns", "after"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(seen(), "candidate panics panics");
        stop.cancel();
        task.await.expect("ends");
    }
}
