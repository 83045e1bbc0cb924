//! The composition root: the enabled components, put together.

use crate::{
    admission::{Hook, Review},
    cluster::{
        Access, Apply, Feeds, Leadership, LiveGet, Reconcile, Reconciler, SharedList, WorkQueue,
    },
    components::Component,
    namespace_gc::{self, Collecting},
    objects::{Kind, Pod},
    pv_protection::{self, PvProtection},
    pv_releaser::{self, PvReleaser},
    pvc_protection::{self, FinishedPods, PvcProtection},
    pvc_provisioner::{self, PvcProvisioner},
    pvc_retention::{self, Known, PvcRetention},
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
    pub collecting: Option<Collecting>,
    /// The writer.
    pub apply: Arc<Apply>,
    /// Whether to reconcile.
    pub leadership: Leadership,
    /// Where to count.
    pub metrics: Arc<Metrics>,
}

impl Context {
    /// What namespace-gc works with, where it is active.
    fn collecting(&self) -> Option<&Collecting> {
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

    fn add_pvc_protection(&mut self, stop: &CancellationToken) {
        let (context, feeds) = (&self.context, self.feeds.clone());
        let queue = Arc::new(WorkQueue::default());
        let live_claims = LiveGet::namespaced(context.metrics.clone(), &context.client);
        self.hooks.extend(pvc_protection::hooks(
            &feeds.claims,
            &live_claims,
            &feeds.pods,
            &context.exempt,
        ));
        let deletions = pvc_protection::deletions_hook(&feeds.pods, context.finished_pods);
        self.hooks.push(deletions);
        let teller = pvc_protection::Teller {
            claims: feeds.claims.clone(),
            pods: feeds.pods.clone(),
            apply: context.apply.clone(),
            leadership: context.leadership.clone(),
            finished_pods: context.finished_pods,
            told: Arc::default(),
        };
        self.reconcilers.push(Box::pin(teller.run(stop.clone())));
        let component = PvcProtection {
            claims: feeds.claims,
            pods: feeds.pods,
            live_pods: self.live_pods.clone(),
            apply: context.apply.clone(),
            finished_pods: context.finished_pods,
        };
        component.listen(&queue);
        component.count(&context.metrics);
        self.reconcile(Component::PvcProtection, component, queue, stop);
    }

    fn add_pv_protection(&mut self, stop: &CancellationToken) {
        let (context, feeds) = (&self.context, self.feeds.clone());
        let queue = Arc::new(WorkQueue::default());
        let live_claims = LiveGet::namespaced(context.metrics.clone(), &context.client);
        self.hooks.extend(pv_protection::hooks(
            &feeds.claims,
            &live_claims,
            context.namespace.as_deref(),
        ));
        self.hooks.push(pv_protection::deletions_hook());
        let component = PvProtection {
            volumes: feeds.volumes,
            apply: context.apply.clone(),
        };
        component.listen(&queue);
        component.count(&context.metrics);
        self.reconcile(Component::PvProtection, component, queue, stop);
    }

    /// Where claims are protected too, the claims of sets get their finalizer in the same call: the manifests have them sent here only.
    fn add_pvc_retention(&mut self, protects: bool, stop: &CancellationToken) {
        let (context, sets) = (&self.context, &self.feeds.sets);
        let live_sets = LiveGet::namespaced(context.metrics.clone(), &context.client);
        let queue = Arc::new(WorkQueue::default());
        let mut hook = pvc_retention::hook(sets, &live_sets, context.namespace.as_deref());
        if protects {
            hook.review = hook
                .review
                .and(Review::from_memory(pvc_protection::protect));
        }
        self.hooks.push(hook);
        self.hooks.push(pvc_retention::marks_hook());
        let component = PvcRetention {
            known: Known::from(&self.feeds),
            live_sets,
            live_pods: self.live_pods.clone(),
            apply: context.apply.clone(),
            told: Arc::default(),
        };
        component.listen(&queue);
        component.count(&context.metrics);
        self.reconcile(Component::PvcRetention, component, queue, stop);
    }

    fn add_pvc_provisioner(&mut self, stop: &CancellationToken) {
        let context = &self.context;
        let (client, metrics) = (&context.client, &context.metrics);
        let known = pvc_provisioner::Known::from(&self.feeds);
        let requesters = context.provisioning.authorizes().then(|| {
            let access = Access::new(client.clone(), metrics.clone());
            pvc_provisioner::Requesters::new(access)
        });
        self.hooks
            .push(pvc_provisioner::hook(pvc_provisioner::Door {
                known: known.clone(),
                apply: context.apply.clone(),
                requesters,
                options: context.provisioning.clone(),
                namespace: context.namespace.clone(),
            }));
        self.hooks.push(pvc_provisioner::marks_hook());
        let component = PvcProvisioner {
            known,
            live_claims: LiveGet::namespaced(metrics.clone(), client),
            live_pod: LiveGet::namespaced(metrics.clone(), client),
            live_pods: self.live_pods.clone(),
            apply: context.apply.clone(),
            options: context.provisioning.clone(),
            tell: pvc_provisioner::Tell::new(context.apply.clone()),
            waiting: pvc_provisioner::Waiting::default(),
        };
        let queue = Arc::new(WorkQueue::default());
        component.listen(&queue);
        component.count(metrics);
        self.reconcile(Component::PvcProvisioner, component, queue, stop);
    }

    /// Where volumes are protected too, they get their finalizer in the same call: the manifests have them sent here only.
    fn add_pv_releaser(&mut self, protects: bool, stop: &CancellationToken) {
        let (context, namespace) = (&self.context, self.context.namespace.as_deref());
        if let Some(namespace) = namespace {
            tracing::warn!(
                namespace,
                "volumes have no namespace, so pv-releaser looks after all that are labelled; only claims of this one get volumes labelled"
            );
        }
        let known = pv_releaser::Known::new(&self.feeds, namespace, context.releasing.clone());
        let mut hook = pv_releaser::hook(&known);
        if protects {
            let protect = Review::from_memory(pv_protection::protect);
            hook.review = hook.review.and(protect);
        }
        self.hooks.push(hook);
        let component = PvReleaser {
            known,
            live_attachments: SharedList::whole(context.metrics.clone(), &context.client),
            apply: context.apply.clone(),
            told: Arc::default(),
        };
        let queue = Arc::new(WorkQueue::default());
        component.listen(&queue);
        component.count(&context.metrics);
        self.reconcile(Component::PvReleaser, component, queue, stop);
    }

    /// Without a storage backend it does nothing, and watches nothing.
    fn add_namespace_gc(&mut self, stop: &CancellationToken) {
        let context = &self.context;
        let Some(collecting) = context.collecting() else {
            let why = match context.collecting {
                Some(_) => "it looks after whole clusters, not one --namespace",
                None => "there is no --storage-backend",
            };
            tracing::info!(component = namespace_gc::NAME, why, "inactive");
            return;
        };
        let means = namespace_gc::Means {
            client: context.client.clone(),
            namespaces: self.feeds.namespaces.clone(),
            apply: context.apply.clone(),
            leadership: context.leadership.clone(),
            metrics: context.metrics.clone(),
        };
        let parts = namespace_gc::assemble(&means, collecting, stop);
        self.reconcilers.extend(parts.background);
        self.reconcile(Component::NamespaceGc, parts.reconcile, parts.queue, stop);
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
