//! Puts the component together.

use super::{Collection, Collector, NamespaceGc, Options, Recorder, Remover, Scope, Seen, Tell};
use crate::{
    backend::Backend,
    cluster::{Apply, Feed, Leadership, LeaseName, WorkQueue},
    objects::{Namespace, ObjectName},
    telemetry::Metrics,
};
use futures::future::BoxFuture;
use kube::Client;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What an installation says.
#[derive(Clone, Debug)]
pub struct GcConfig {
    /// The storage.
    pub backend: Arc<dyn Backend>,
    /// What may be chosen.
    pub options: Arc<Options>,
    /// Events are about it.
    pub lease: LeaseName,
    /// Where the ConfigMap is.
    pub system_namespace: String,
}

/// What every component gets.
#[derive(Clone)]
pub struct GcDeps {
    /// For live reads, and the ConfigMap.
    pub client: Client,
    /// What the watch tells.
    pub namespaces: Arc<Feed<Namespace>>,
    /// For Events.
    pub apply: Arc<Apply>,
    /// Whether to delete.
    pub leadership: Leadership,
    /// Where to count.
    pub metrics: Arc<Metrics>,
}

/// The component, listening already.
pub struct GcTasks {
    /// The reconciler.
    pub reconcile: NamespaceGc,
    /// What it works off.
    pub queue: Arc<WorkQueue<ObjectName>>,
    /// What else has to run, until the `stop` it was made with.
    pub background: Vec<BoxFuture<'static, ()>>,
}

/// See the module. Nothing runs yet.
pub fn assemble(means: &GcDeps, collecting: &GcConfig, stop: &CancellationToken) -> GcTasks {
    let GcConfig {
        backend, options, ..
    } = collecting;
    let client = &means.client;
    let leadership = Some(means.leadership.clone());
    let remover = Remover::new(client, backend, options, &means.metrics, leadership);
    let reconcile = NamespaceGc {
        namespaces: means.namespaces.clone(),
        remover: Arc::new(remover),
        waiting: Arc::default(),
        soon: watch::Sender::default(),
        tell: Tell::new(
            client.clone(),
            means.apply.clone(),
            collecting.lease.clone(),
            backend.name(),
        ),
    };
    let queue = Arc::new(WorkQueue::default());
    reconcile.listen(&queue);
    reconcile.count(&means.leadership, &means.metrics);
    let seen = Arc::new(Seen::new(client.clone(), &collecting.system_namespace));
    let (storage, until) = (backend.clone(), stop.clone());
    let tending: BoxFuture<'static, ()> = Box::pin(async move { storage.tend(until).await });
    let mut background = vec![tending];
    if options.scope == Scope::Seen && !options.dry_run {
        let metrics = reconcile.remover.gc_metrics.clone();
        let recorder = Recorder::new(seen.clone(), means.leadership.clone(), metrics);
        recorder.listen(&means.namespaces);
        background.push(Box::pin(recorder.run(stop.clone())));
    }
    let collector = Collector {
        collection: Collection::new(client, reconcile.remover.clone(), seen),
        reconcile: reconcile.clone(),
        queue: queue.clone(),
        leadership: means.leadership.clone(),
    };
    background.push(Box::pin(collector.run(stop.clone())));
    GcTasks {
        reconcile,
        queue,
        background,
    }
}
