//! Builds the component pvc-protection from its options and the shared parts.

use super::{
    HeldClaimReporter, NAME, PvcProtectionReconciler, deletions_hook, hooks, options::Options,
    protect, unused::UnusedReconciler,
};
use crate::{
    admission::Review,
    cluster::{Configuration, LiveGet, SharedList, WorkQueue},
    component::{Component, Parts, Shared},
    objects::{Kind, ObjectName},
};
use clap::{Args as _, Command};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;

/// Maximum number of concurrent LISTs of pods for the condition `Unused`. The removal of finalizers
/// uses other LISTs, which never wait for these.
const CONDITION_LISTS: usize = 2;

/// The component `pvc-protection`: keeps a claim while a pod uses it.
pub struct PvcProtection;

impl Component for PvcProtection {
    fn name(&self) -> &'static str {
        NAME
    }

    fn webhook_configurations(&self) -> &'static [Configuration] {
        &[
            Configuration::Mutating("volume-warden-pvc-protection"),
            Configuration::Validating("volume-warden-pvc-protection-guard"),
            Configuration::Validating("volume-warden-pvc-protection-binding-guard"),
        ]
    }

    fn flags(&self, run: Command) -> Command {
        Options::augment_args(run)
    }

    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>> {
        Box::pin(async { Ok(parts(shared, shared.options::<Options>()?)) })
    }
}

fn parts(shared: &Shared, options: Options) -> Parts {
    let (finished_pods, feeds) = (options.finished_pods(), shared.feeds.clone());
    let mode = options.unused_condition();
    let queue = Arc::new(WorkQueue::default());
    // Reviews and the reconciler of the condition do not wait for each other's reads.
    let live_claims = || LiveGet::new(shared.metrics.clone(), &shared.client);
    let mut parts = Parts::watching(&[Kind::Pod, Kind::PersistentVolumeClaim]);
    parts.webhooks = hooks(&feeds.claims, &live_claims(), &feeds.pods, &shared.exempt);
    parts
        .webhooks
        .push(deletions_hook(&feeds.pods, finished_pods));
    // If pvc-retention is installed, the API server sends new claims of StatefulSets to its webhook
    // instead of that of pvc-protection; and if pvc-trash is, claims that may restore data to that
    // of pvc-trash. So these webhooks add the finalizer, too.
    let review = Review::from_memory(protect);
    let retention = ("/pvc-retention/claims", review.clone());
    parts
        .joined_reviews
        .extend([retention, ("/pvc-trash/claims", review)]);
    let reporter = HeldClaimReporter {
        claims: feeds.claims.clone(),
        pods: feeds.pods.clone(),
        apply: shared.apply.clone(),
        leadership: shared.leadership.clone(),
        clock: shared.clock.clone(),
        finished_pods,
        events: Arc::default(),
        last: Mutex::new(ObjectName::cluster_scoped("")),
    };
    parts
        .tasks
        .push(Box::pin(reporter.run(shared.stop.clone())));
    let reconciler = PvcProtectionReconciler {
        claims: feeds.claims.clone(),
        pods: feeds.pods.clone(),
        live_pods: shared.live_pods.clone(),
        apply: shared.apply.clone(),
        finished_pods,
        last_seen: Arc::default(),
    };
    reconciler.listen(&queue);
    reconciler.register_metrics(&shared.metrics);
    parts.reconcile(shared, reconciler, queue);
    let queue = Arc::new(WorkQueue::default());
    let condition = UnusedReconciler {
        claims: feeds.claims,
        pods: feeds.pods,
        live_pods: SharedList::limited(shared.metrics.clone(), &shared.client, CONDITION_LISTS),
        live_claims: live_claims(),
        apply: shared.apply.clone(),
        time: shared.latest_time.clone(),
        mode,
        excluded: shared.excluded.clone(),
        in_tree: Arc::default(),
    };
    condition.listen(&queue);
    parts.reconcile(shared, condition, queue);
    parts
}
