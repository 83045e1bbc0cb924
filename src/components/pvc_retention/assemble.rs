//! Builds the component pvc-retention from the shared parts.

use super::{Caches, NAME, PvcRetentionReconciler, hook, other_sets::LiveSets, strip_marker_hook};
use crate::{
    cluster::{Configuration, WorkQueue},
    component::{Component, Parts, Shared},
    objects::Kind,
};
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use std::sync::Arc;

/// The component `pvc-retention`: applies the retention policy of StatefulSets to their claims.
pub struct PvcRetention;

impl Component for PvcRetention {
    fn name(&self) -> &'static str {
        NAME
    }

    fn webhook_configurations(&self) -> &'static [Configuration] {
        &[Configuration::Mutating("volume-warden-pvc-retention")]
    }

    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>> {
        Box::pin(ready(Ok(parts(shared))))
    }
}

fn parts(shared: &Shared) -> Parts {
    let (feeds, namespace) = (&shared.feeds, shared.namespace.as_deref());
    let live_sets = || LiveSets::new(&shared.metrics, &shared.client);
    let queue = Arc::new(WorkQueue::default());
    let kinds = [Kind::StatefulSet, Kind::PersistentVolumeClaim, Kind::Pod];
    let mut parts = Parts::watching(&kinds);
    let claims = hook(&feeds.sets, &live_sets().one, namespace);
    parts.webhooks = vec![claims];
    parts.safeguards = vec![strip_marker_hook()];
    let reconciler = PvcRetentionReconciler {
        caches: Caches::from(feeds),
        live_sets: live_sets(),
        live_rescues: live_sets(),
        live_pods: shared.live_pods.clone(),
        apply: shared.apply.clone(),
        events: Arc::default(),
        blocking: Mutex::default(),
    };
    reconciler.listen(&queue);
    reconciler.register_metrics(&shared.metrics);
    parts.reconcile(shared, reconciler, queue);
    parts
}
