//! The composition root: the enabled components, put together.

mod components;

use crate::{
    admission::Hook,
    causes::FinishedPods,
    cluster::{Apply, Feeds, Leadership, Reconcile, Reconciler, SharedList, WorkQueue},
    components::{Component, namespace_gc::GcConfig, pv_releaser, pvc_provisioner},
    objects::{Kind, Pod},
    telemetry::Metrics,
};
use futures::future::BoxFuture;
use kube::Client;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What every component gets.
pub struct Context {
    /// For watches and live reads.
    pub client: Client,
    /// Only this namespace, where set.
    pub namespace: Option<String>,
    /// Namespaces in which nothing is refused at admission.
    pub exempt: Vec<String>,
    /// Whether finished pods hold their claims.
    pub finished_pods: FinishedPods,
    /// What may be chosen about pvc-provisioner.
    pub provisioning: Arc<pvc_provisioner::Options>,
    /// How pv-releaser releases.
    pub releasing: pv_releaser::Options,
    /// From where namespaces are removed. Without it namespace-gc is inactive.
    pub collecting: Option<GcConfig>,
    /// The writer.
    pub apply: Arc<Apply>,
    /// Whether to reconcile.
    pub leadership: Leadership,
    /// Where to count.
    pub metrics: Arc<Metrics>,
}

impl Context {
    /// What namespace-gc works with, where it is active.
    fn collecting(&self) -> Option<&GcConfig> {
        let everywhere = self.namespace.is_none();
        self.collecting.as_ref().filter(|_| everywhere)
    }
}

/// The enabled components, ready to run.
pub struct Assembly {
    context: Context,
    feeds: Feeds,
    live_pods: Arc<SharedList<Pod>>,
    watched: Vec<Kind>,
    reconcilers: Vec<BoxFuture<'static, ()>>,
    /// Their webhooks.
    pub hooks: Vec<Hook>,
}

impl Assembly {
    /// Puts the components together. Nothing runs yet. Reconcilers work until `stop`.
    pub fn new(components: &[Component], context: Context, stop: &CancellationToken) -> Self {
        let feeds = Feeds::new(&context.metrics);
        let watched = watched(components, &context);
        let live_pods = SharedList::namespaced(context.metrics.clone(), &context.client);
        let mut assembly = Self {
            context,
            feeds,
            live_pods,
            watched,
            reconcilers: Vec::new(),
            hooks: Vec::new(),
        };
        for component in components {
            match component {
                Component::PvcProtection => assembly.add_pvc_protection(stop),
                Component::PvProtection => assembly.add_pv_protection(stop),
                Component::PvcRetention => {
                    let protects = components.contains(&Component::PvcProtection);
                    assembly.add_pvc_retention(protects, stop);
                }
                Component::PvcProvisioner => assembly.add_pvc_provisioner(stop),
                Component::PvReleaser => {
                    let protects = components.contains(&Component::PvProtection);
                    assembly.add_pv_releaser(protects, stop);
                }
                Component::NamespaceGc => assembly.add_namespace_gc(stop),
            }
        }
        assembly
    }

    fn reconcile<R: Reconcile>(
        &mut self,
        component: Component,
        reconcile: R,
        queue: Arc<WorkQueue<R::Key>>,
        stop: &CancellationToken,
    ) {
        let (leadership, metrics) = (
            self.context.leadership.clone(),
            self.context.metrics.clone(),
        );
        let reconciler = Reconciler {
            reconcile: Arc::new(reconcile),
            queue,
            leadership,
            metrics,
        };
        let (synced, stop) = (self.synced(component), stop.clone());
        self.reconcilers.push(Box::pin(async move {
            // A half-filled index knows too few users of a claim. The live read would find them, at a cost.
            tokio::select! { () = stop.cancelled() => return, () = synced => {} }
            reconciler.run(stop).await;
        }));
    }

    /// What this component watches is listed: a kind that may not be read holds up no other component.
    fn synced(&self, component: Component) -> impl Future<Output = ()> + Send + 'static {
        let feeds = self.feeds.clone();
        let watched = watched(&[component], &self.context);
        async move {
            for kind in watched {
                feeds.synced(kind).await;
            }
        }
    }

    /// The writer.
    pub fn apply(&self) -> Arc<Apply> {
        self.context.apply.clone()
    }

    /// The watches, which never end, each with its name.
    pub fn watches(&self) -> Vec<(&'static str, BoxFuture<'static, ()>)> {
        let (client, namespace) = (&self.context.client, self.context.namespace.as_deref());
        let run = |kind: &Kind| (kind.plural(), self.feeds.run(*kind, client, namespace));
        self.watched.iter().map(run).collect()
    }

    /// The reconcilers, which end with the `stop` they were made with.
    pub fn reconcilers(&mut self) -> Vec<BoxFuture<'static, ()>> {
        std::mem::take(&mut self.reconcilers)
    }

    /// Tells which watches have no complete list yet, and whether the storage backend cannot be worked with. That counts only where
    /// nothing else is served: it must not take webhooks down.
    pub fn missing(&self) -> impl Fn() -> Vec<String> + Send + Sync + 'static {
        let (feeds, watched) = (self.feeds.clone(), self.watched.clone());
        let collecting = self.context.collecting().filter(|_| self.hooks.is_empty());
        let backend = collecting.map(|collecting| collecting.backend.clone());
        move || {
            let unlisted = watched.iter().filter(|kind| !feeds.is_synced(**kind));
            let unlisted = unlisted.map(|kind| format!("{} are not listed yet", kind.plural()));
            let unready = backend.iter().filter(|backend| !backend.is_ready());
            let unready = unready.map(|backend| format!("{} is not ready yet", backend.name()));
            unlisted.chain(unready).collect()
        }
    }
}

/// The kind that the component watches only if it is told to.
fn may_watch(component: Component, context: &Context) -> Option<Kind> {
    match component {
        Component::PvReleaser => context.releasing.by_class.then_some(Kind::StorageClass),
        Component::NamespaceGc => context.collecting().map(|_| Kind::Namespace),
        _ => None,
    }
}

/// Each kind once.
fn watched(components: &[Component], context: &Context) -> Vec<Kind> {
    let mut watched = Vec::new();
    for component in components {
        let kinds = component.watches().iter().copied();
        for kind in kinds.chain(may_watch(*component, context)) {
            if !watched.contains(&kind) {
                watched.push(kind);
            }
        }
    }
    watched
}
