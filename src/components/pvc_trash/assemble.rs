//! Builds the component pvc-trash from its options and the shared parts.

use super::{
    NAME,
    caches::Caches,
    confirm::Live,
    copies::Copies,
    metrics,
    options::Options,
    purge_limit::PurgeLimit,
    reconcile::PvcTrashReconciler,
    undelete::VolumeRestorer,
    webhooks::{Reviews, deletions, hooks},
};
use crate::{
    cluster::{Configuration, WorkQueue},
    component::{Component, Parts, Shared},
    objects::Kind,
};
use clap::{Args as _, Command};
use futures::future::BoxFuture;
use std::sync::Arc;

/// The component `pvc-trash`: keeps the data of deleted claims, so that it can be restored.
pub struct PvcTrash;

impl Component for PvcTrash {
    fn name(&self) -> &'static str {
        NAME
    }

    fn webhook_configurations(&self) -> &'static [Configuration] {
        &[Configuration::Mutating("volume-warden-pvc-trash")]
    }

    fn flags(&self, run: Command) -> Command {
        Options::augment_args(run)
    }

    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>> {
        Box::pin(async { Ok(parts(shared, &shared.options::<Options>()?)) })
    }
}

fn parts(shared: &Shared, options: &Options) -> Parts {
    let caches = Caches::new(
        &shared.feeds,
        shared.namespace.as_deref(),
        options.trash_max_bytes,
    );
    let live = Live::new(&shared.metrics, &shared.client);
    let mut parts = Parts::watching(&[
        Kind::PersistentVolume,
        Kind::PersistentVolumeClaim,
        Kind::StorageClass,
        Kind::ConfigMap,
    ]);
    let reviews = Arc::new(Reviews {
        caches: caches.clone(),
        // The webhooks and the reconciler have separate limits for live reads, so neither waits for
        // the other.
        live: Live::new(&shared.metrics, &shared.client),
    });
    parts.webhooks = hooks(&reviews);
    let warning = ("/pvc-protection/deletions", deletions(&reviews));
    parts.joined_reviews.push(warning);
    let reconciler = PvcTrashReconciler {
        undelete: VolumeRestorer {
            caches: caches.clone(),
            live: live.clone(),
            apply: shared.apply.clone(),
            clock: shared.clock.clone(),
            waiting: Default::default(),
            refused: Default::default(),
        },
        copies: Copies::new(
            &shared.feeds,
            &shared.client,
            &shared.apply,
            &shared.system_namespace,
            &shared.metrics,
        ),
        caches,
        live,
        apply: shared.apply.clone(),
        clock: shared.clock.clone(),
        purges: PurgeLimit::new(options.trash_max_purges),
        events: Arc::default(),
        classes: Arc::default(),
    };
    let queue = Arc::new(WorkQueue::default());
    reconciler.listen(&queue);
    metrics::register(
        &shared.metrics,
        reconciler.caches.clone(),
        shared.clock.clone(),
    );
    parts.reconcile(shared, reconciler, queue);
    parts
}
