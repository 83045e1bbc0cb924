//! Builds the component namespace-gc from its flags and the shared parts.

use super::{
    BackendOptions, Collection, CollectionOptions, Collector, NAME, NamespaceGcReconciler, Notices,
    Options, Recorder, Remover, Scope, Seen, collection_options::PeriodOptions,
};
use crate::{
    backend::Backend,
    cluster::WorkQueue,
    component::{Component, Parts, Shared},
    objects::{Kind, ObjectName},
};
use clap::{Args, Command};
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::watch;

/// The component `namespace-gc`: deletes orphaned namespaces of the storage backend.
pub struct NamespaceGc;

/// The flags of namespace-gc.
#[derive(Args)]
struct Flags {
    #[command(flatten)]
    backend: BackendOptions,
    #[command(flatten)]
    collection: CollectionOptions,
    #[command(flatten)]
    period: PeriodOptions,
}

impl Component for NamespaceGc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn flags(&self, run: Command) -> Command {
        Flags::augment_args(run)
    }

    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>> {
        Box::pin(build(shared))
    }
}

/// Builds the component. Flags that cannot be used are an error; a storage backend that does not
/// answer is not.
async fn build(shared: &Shared) -> anyhow::Result<Parts> {
    let flags: Flags = shared.options()?;
    let Some(backend) = flags.backend.backend().await? else {
        return Ok(inactive("--storage-backend is not set"));
    };
    if shared.namespace.is_some() {
        return Ok(inactive(
            "--namespace is set; namespace-gc handles whole clusters",
        ));
    }
    let once = flags.collection.options(&flags.backend, shared.dry_run);
    Ok(parts(shared, backend, flags.period.repeated(once)))
}

/// Builds the parts of the component for this storage backend.
pub fn parts(shared: &Shared, backend: Arc<dyn Backend>, options: Options) -> Parts {
    let GcTasks {
        reconcile,
        queue,
        background,
    } = assemble(shared, &backend, Arc::new(options));
    let mut parts = Parts::watching(&[Kind::Namespace]);
    parts.pending = Some(Arc::new(move || {
        let ready = backend.is_ready();
        (!ready).then(|| format!("the storage backend {} is not ready yet", backend.name()))
    }));
    parts.tasks = background;
    parts.reconcile(shared, reconcile, queue);
    parts
}

fn inactive(reason: &str) -> Parts {
    tracing::info!(component = NAME, reason, "the component is inactive");
    Parts::default()
}

/// The reconciler, its queue, and the other tasks, which run until shutdown.
pub(super) struct GcTasks {
    pub(super) reconcile: NamespaceGcReconciler,
    pub(super) queue: Arc<WorkQueue<ObjectName>>,
    pub(super) background: Vec<BoxFuture<'static, ()>>,
}

/// Builds the reconciler and the tasks without starting them.
pub(super) fn assemble(
    shared: &Shared,
    backend: &Arc<dyn Backend>,
    options: Arc<Options>,
) -> GcTasks {
    let (client, leadership) = (&shared.client, &shared.leadership);
    let leads = Some(leadership.clone());
    let remover = Remover::new(
        client,
        backend,
        &options,
        &shared.metrics,
        &shared.clock,
        leads,
    );
    let seen = Arc::new(Seen::new(client.clone(), &shared.system_namespace));
    let reconcile = NamespaceGcReconciler {
        namespaces: shared.feeds.namespaces.clone(),
        remover: Arc::new(remover),
        waiting: Arc::default(),
        seen: (options.scope == Scope::Seen).then(|| seen.clone()),
        soon: watch::Sender::default(),
        notices: Notices::new(
            client.clone(),
            shared.apply.clone(),
            shared.lease.clone(),
            backend.name(),
        ),
    };
    let queue = Arc::new(WorkQueue::default());
    reconcile.listen(&queue);
    reconcile.count(leadership, &shared.metrics);
    let (storage, stop) = (backend.clone(), shared.stop.clone());
    let tending: BoxFuture<'static, ()> =
        Box::pin(async move { storage.run_background(stop).await });
    let mut background = vec![tending];
    if options.scope == Scope::Seen && !options.dry_run {
        let metrics = reconcile.remover.gc_metrics.clone();
        let recorder = Recorder::new(seen.clone(), leadership.clone(), metrics);
        recorder.listen(&shared.feeds.namespaces);
        background.push(Box::pin(recorder.run(shared.stop.clone())));
    }
    let collector = Collector {
        collection: Collection::new(client, reconcile.remover.clone(), seen),
        reconcile: reconcile.clone(),
        queue: queue.clone(),
        leadership: leadership.clone(),
    };
    background.push(Box::pin(collector.run(shared.stop.clone())));
    GcTasks {
        reconcile,
        queue,
        background,
    }
}
