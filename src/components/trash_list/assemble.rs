//! Builds the component trash-list from the shared parts.

use super::{NAME, caches::Caches, reconcile::TrashListReconciler};
use crate::{
    cluster::{LiveGet, WorkQueue},
    component::{Component, Parts, Shared},
    objects::Kind,
};
use futures::future::BoxFuture;
use std::sync::Arc;

/// The trash-list component.
pub struct TrashListing;

impl Component for TrashListing {
    fn name(&self) -> &'static str {
        NAME
    }

    fn runs_by_default(&self) -> bool {
        false
    }

    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>> {
        Box::pin(async { Ok(parts(shared)) })
    }
}

fn parts(shared: &Shared) -> Parts {
    let namespace = shared.namespace.as_deref();
    let mut parts = Parts::watching(&[Kind::PersistentVolume, Kind::TrashList]);
    let reconciler = TrashListReconciler {
        caches: Caches::new(&shared.feeds, namespace),
        // With `--namespace`, that namespace is handled whatever its labels are.
        opt_out: namespace.is_none(),
        namespaces: LiveGet::new(shared.metrics.clone(), &shared.client),
        live: LiveGet::new(shared.metrics.clone(), &shared.client),
        apply: shared.apply.clone(),
        written: Default::default(),
        reported: Arc::default(),
    };
    let queue = Arc::new(WorkQueue::default());
    reconciler.caches.listen(&queue);
    parts.reconcile(shared, reconciler, queue);
    parts
}
