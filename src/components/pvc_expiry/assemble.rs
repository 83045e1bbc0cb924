//! Builds the component pvc-expiry from its options and the shared parts.

use super::{
    NAME, caches::Caches, confirm::Live, metrics, options::Options, reconcile::PvcExpiryReconciler,
};
use crate::{
    cluster::{Feeds, HourlyLimit, WorkQueue},
    component::{Component, Parts, Shared},
    objects::{Kind, ObjectName},
};
use clap::{Args as _, Command};
use futures::future::BoxFuture;
use std::sync::Arc;

/// The component `pvc-expiry`: deletes claims that no pod has used for a long time.
pub struct PvcExpiry;

/// The kinds that the component watches. The observation, the time during which this replica sees
/// which claims are used, begins when the first list of each kind is complete.
const WATCHES: [Kind; 4] = [
    Kind::Pod,
    Kind::PersistentVolumeClaim,
    Kind::PersistentVolume,
    Kind::StorageClass,
];

impl Component for PvcExpiry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn runs_by_default(&self) -> bool {
        false
    }

    fn flags(&self, run: Command) -> Command {
        Options::augment_args(run)
    }

    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>> {
        Box::pin(async { Ok(parts(shared, shared.options::<Options>()?)) })
    }
}

fn parts(shared: &Shared, options: Options) -> Parts {
    let (observation, time) = (shared.observation.clone(), shared.latest_time.clone());
    let caches = Caches::new(&shared.feeds, observation, time, shared.excluded.clone());
    for kind in WATCHES {
        let (observation, time) = (caches.observation.clone(), caches.time.clone());
        shared.feeds.during_outage(kind, move |missed| {
            observation.interrupt(missed, time.now());
        });
    }
    let mut parts = Parts::watching(&WATCHES);
    let queue = Arc::new(WorkQueue::default());
    let observe = observe(shared.feeds.clone(), caches.clone(), queue.clone());
    let stop = shared.stop.clone();
    parts.tasks.push(Box::pin(async move {
        stop.run_until_cancelled(observe).await;
        stop.cancelled().await;
    }));
    let reconciler = PvcExpiryReconciler {
        live: Live::new(
            &shared.metrics,
            &shared.client,
            options.expiry_references,
            shared.namespace.as_deref(),
        ),
        caches,
        apply: shared.apply.clone(),
        limit: HourlyLimit::new(options.expiry_max_deletions),
        first_evaluations: Default::default(),
        named: Default::default(),
        reported: Arc::default(),
        announced: Arc::default(),
        unread: Arc::default(),
        classes: Arc::default(),
    };
    reconciler.listen(&queue);
    metrics::register(&shared.metrics, reconciler.caches.clone());
    parts.reconcile(shared, reconciler, queue);
    parts
}

/// Waits until the first list of each of the [`WATCHES`] is complete. Then begins the observation,
/// and enqueues every claim that may expire: before, the rule lets none expire.
async fn observe(feeds: Feeds, caches: Caches, queue: Arc<WorkQueue<ObjectName>>) {
    for kind in WATCHES {
        feeds.synced(kind).await;
    }
    caches.observation.begin(caches.time.now());
    let candidates = caches.candidates().into_iter();
    candidates.for_each(|(name, _)| queue.add(name));
}
