//! Runs periodic collections while this replica leads.

use super::{
    Collection, GcMetrics, NAME, NamespaceGcReconciler, Removal, Scope, Verdict,
    collection::Collected,
    schedule::{backoff, chance},
    waiting::Origin,
};
use crate::{
    backend::Listed,
    cluster::{Leadership, WorkQueue},
    hashing::HashSet,
    objects::ObjectName,
};
use futures::FutureExt;
use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// First pause after a failed collection. Each further failure doubles the pause, up to
/// [`LONGEST_DELAY`].
const FIRST_DELAY: Duration = Duration::from_secs(5);
const LONGEST_DELAY: Duration = Duration::from_secs(300);
/// Pause before a collection that the reconciler requests, because the watch missed deletions: one
/// collection then removes all of these namespaces from the storage backend.
const GATHER: Duration = Duration::from_secs(1);

/// Runs periodic collections while this replica leads.
pub struct Collector {
    /// The collection that is run periodically.
    pub collection: Collection,
    /// Retries failed removals and publishes Events.
    pub reconcile: NamespaceGcReconciler,
    /// The reconciler's queue, for names to retry.
    pub queue: Arc<WorkQueue<ObjectName>>,
    /// Whether this replica leads; only the leader runs collections.
    pub leadership: Leadership,
}

impl Collector {
    fn metrics(&self) -> &GcMetrics {
        &self.reconcile.remover.gc_metrics
    }

    /// Runs until `stop` is cancelled. Collections begin once this replica has become the leader
    /// and the delay has passed, and end when the replica loses the lead.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.leadership.gained() => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.leadership.lost() => {}
                () = self.collect_periodically() => {}
            }
            self.reconcile.waiting.clear();
            self.metrics().forget_collection();
        }
    }

    async fn collect_periodically(&self) {
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
                biased;
                () = sleep_until(next) => {}
                _ = wanted.changed() => sleep(GATHER).await,
            }
        }
    }

    /// Runs one collection. Returns whether it completed, whether or not single removals failed.
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
                tracing::warn!(component = NAME, %abort, reason = abort.name(), "collection failed, nothing was deleted; retrying");
                false
            }
            Err(_) => {
                self.metrics().ran("Panicked");
                false
            }
        }
    }

    /// Records the result of a removal. If it failed, the reconciler retries it, as it does for a
    /// deletion that the watch reported.
    fn done(&self, name: &str, removal: &Removal) {
        if *removal == Removal::NotLeading {
            // This replica lost the lead, so the new leader runs the next collection.
            return;
        }
        let name = ObjectName::cluster_scoped(name);
        if self
            .reconcile
            .conclude(&name, removal, Origin::Collected)
            .is_err()
        {
            self.queue.add(name);
        }
    }

    async fn conclude(&self, collected: Collected) {
        let Collected {
            report,
            gone,
            unrecorded,
        } = collected;
        let metrics = self.metrics();
        let count = |count: usize| count.try_into().unwrap_or(i64::MAX);
        let verdicts = report.verdicts();
        #[expect(
            clippy::iter_over_hash_type,
            reason = "each verdict has its own gauge, in any order"
        )]
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
            "collection completed"
        );
        if over > 0 {
            self.reconcile.notices.capped(orphans, over);
        }
        let Collection { options, .. } = &self.collection;
        if options.scope == Scope::Seen && !options.dry_run {
            // First, because the record may be full.
            self.forget(gone).await;
            self.remember(unrecorded).await;
        }
    }

    /// Records the names of namespaces that exist and are not recorded.
    async fn remember(&self, unrecorded: BTreeSet<String>) {
        if unrecorded.is_empty() {
            return;
        }
        match self.collection.seen.add(&unrecorded).await {
            Ok(recorded) => self.metrics().recorded(recorded),
            Err(error) => {
                tracing::warn!(component = NAME, %error, "names of namespaces could not be added to \
                    the ConfigMap volume-warden-seen-namespaces; the next collection retries");
            }
        }
    }

    /// Removes the names `gone` from the record, except those of namespaces that exist again.
    async fn forget(&self, gone: HashSet<String>) {
        if gone.is_empty() {
            return;
        }
        let exist = |name: &str| self.reconcile.exists(name);
        match self.collection.seen.forget(&gone, exist).await {
            Ok(()) => tracing::info!(
                component = NAME,
                names = gone.len(),
                "names of namespaces that neither Kubernetes nor the storage backend has any more were \
                 removed from the ConfigMap volume-warden-seen-namespaces"
            ),
            Err(error) => tracing::warn!(component = NAME, %error, "names of deleted namespaces \
                could not be removed from the ConfigMap volume-warden-seen-namespaces; the next \
                collection retries"),
        }
    }
}
