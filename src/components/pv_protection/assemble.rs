//! Builds the component pv-protection from the shared parts.

use super::{NAME, PvProtectionReconciler, deletions_hook, hooks, protect};
use crate::{
    admission::Review,
    cluster::{Configuration, LiveGet, WorkQueue},
    component::{Component, Parts, Shared},
    objects::Kind,
};
use futures::future::{BoxFuture, ready};
use std::sync::Arc;

/// The component `pv-protection`: keeps a volume while it is bound to a claim.
pub struct PvProtection;

impl Component for PvProtection {
    fn name(&self) -> &'static str {
        NAME
    }

    fn webhook_configurations(&self) -> &'static [Configuration] {
        &[
            Configuration::Mutating("volume-warden-pv-protection"),
            Configuration::Validating("volume-warden-pv-protection-guard"),
        ]
    }

    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>> {
        Box::pin(ready(Ok(parts(shared))))
    }
}

fn parts(shared: &Shared) -> Parts {
    let feeds = shared.feeds.clone();
    let queue = Arc::new(WorkQueue::default());
    let live_claims = LiveGet::new(shared.metrics.clone(), &shared.client);
    let mut parts = Parts::watching(&[Kind::PersistentVolume, Kind::PersistentVolumeClaim]);
    let namespace = shared.namespace.as_deref();
    parts.webhooks = hooks(&feeds.claims, &live_claims, namespace, &shared.excluded);
    parts.webhooks.push(deletions_hook());
    // If pv-releaser is installed, the API server sends a new volume that has the policy Retain and
    // a claim to the webhook of pv-releaser instead of that of pv-protection. So that webhook adds
    // the finalizer, too.
    let review = Review::from_memory(protect);
    parts
        .joined_reviews
        .push(("/pv-releaser/volumes", review.clone()));
    // Likewise, if pvc-trash is installed, for a new volume that has the policy Delete and a claim.
    parts.joined_reviews.push(("/pvc-trash/volumes", review));
    let reconciler = PvProtectionReconciler {
        volumes: feeds.volumes,
        apply: shared.apply.clone(),
    };
    reconciler.listen(&queue);
    reconciler.register_metrics(&shared.metrics);
    parts.reconcile(shared, reconciler, queue);
    parts
}
