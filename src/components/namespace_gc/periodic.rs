//! Collections, one after the other, while this replica leads.

use super::{
    Collection, GcMetrics, NAME, NamespaceGcReconciler, Removal, Scope, Verdict,
    collection::Collected,
    schedule::{backoff, chance},
    waiting::Origin,
};
use crate::{
    backend::Listed,
    cluster::{Leadership, WorkQueue},
    objects::ObjectName,
};
use futures::FutureExt;
use std::{collections::HashSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// After a collection that failed.
const FIRST_DELAY: Duration = Duration::from_secs(5);
const LONGEST_DELAY: Duration = Duration::from_secs(300);
/// What was missed was missed together.
const GATHER: Duration = Duration::from_secs(1);

/// See the module.
pub struct Collector {
    /// What is done.
    pub collection: Collection,
    /// Who tries again, and tells users.
    pub reconcile: NamespaceGcReconciler,
    /// Where what is to be tried again stands in line.
    pub queue: Arc<WorkQueue<ObjectName>>,
    /// Whether to.
    pub leadership: Leadership,
}

impl Collector {
    fn metrics(&self) -> &GcMetrics {
        &self.reconcile.remover.gc_metrics
    }

    /// Works until `stop`: from a while after this replica has come to lead until it no longer does.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.leadership.gained() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.leadership.lost() => {}
                () = self.collect_for_ever() => {}
            }
            self.reconcile.waiting.clear();
        }
    }

    async fn collect_for_ever(&self) {
        if self.collection.options.interval.is_zero() {
            return std::future::pending().await;
        }
        let mut wanted = self.reconcile.soon.subscribe();
        sleep(self.collection.options.delay).await;
        loop {
            wanted.mark_unchanged();
            let next = Instant::now() + self.collection.options.interval;
            let mut failures = 0;
            while !self.collect().await && Instant::now() < next {
                failures += 1;
                let pause = backoff(FIRST_DELAY, LONGEST_DELAY, failures, chance());
                sleep_until(next.min(Instant::now() + pause)).await;
            }
            tokio::select! {
                () = sleep_until(next) => {}
                _ = wanted.changed() => sleep(GATHER).await,
            }
        }
    }

    /// One collection. Whether it ran to its end.
    async fn collect(&self) -> bool {
        let waiting = self.reconcile.waiting.names();
        let done = |listed: &Listed, removal: &Removal| self.done(&listed.name, removal);
        let run = AssertUnwindSafe(self.collection.run(&waiting, &done)).catch_unwind();
        match run.await {
            Ok(Ok(collected)) => {
                self.conclude(collected).await;
                true
            }
            Ok(Err(abort)) => {
                self.metrics().ran(abort.name());
                tracing::warn!(component = NAME, %abort, reason = abort.name(), "nothing was collected, trying again soon");
                false
            }
            Err(_) => {
                self.metrics().ran("Panicked");
                false
            }
        }
    }

    /// What could not be removed waits its turn with those that the watch told of.
    fn done(&self, name: &str, removal: &Removal) {
        if *removal == Removal::NotLeading {
            // Whoever leads collects.
            return;
        }
        let name = ObjectName::new("", name);
        if self
            .reconcile
            .conclude(&name, removal, Origin::Collected)
            .is_err()
        {
            self.queue.add(name);
        }
    }

    async fn conclude(&self, Collected { report, gone }: Collected) {
        let metrics = self.metrics();
        let count = |count: usize| count.try_into().unwrap_or(i64::MAX);
        let verdicts = report.verdicts();
        for (verdict, number) in &verdicts {
            metrics.verdict(verdict.name(), count(*number));
        }
        metrics.skipped(count(report.skipped));
        metrics.ran(if report.failed() == 0 {
            "Done"
        } else {
            "Incomplete"
        });
        let now = self.reconcile.remover.clock.timestamp();
        metrics.succeeded(now.as_second());
        let number = |verdict| verdicts.get(&verdict).copied().unwrap_or_default();
        let (orphans, over) = (number(Verdict::Orphan), number(Verdict::OverTheCap));
        tracing::info!(
            component = NAME,
            namespaces = report.rows.len(),
            orphans = orphans + over,
            deleted = report.deleted(),
            failed = report.failed(),
            skipped = report.skipped,
            dry_run = self.collection.options.dry_run,
            "collected"
        );
        if over > 0 {
            self.reconcile.notices.capped(orphans, over);
        }
        self.forget(gone).await;
    }

    /// Names that are nowhere any more.
    async fn forget(&self, gone: HashSet<String>) {
        let Collection { seen, options, .. } = &self.collection;
        if options.scope != Scope::Seen || options.dry_run || gone.is_empty() {
            return;
        }
        let namespaces = &self.reconcile.namespaces;
        let exist = |name: &str| {
            let name = ObjectName::new("", name);
            namespaces.read().get(&name).is_some()
        };
        if let Err(error) = seen.forget(&gone, exist).await {
            // The next collection comes to the same.
            tracing::warn!(component = NAME, %error, "names of namespaces that are gone could not be forgotten");
        }
    }
}
