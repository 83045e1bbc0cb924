//! The table of components, and the place where they are put together.

use crate::{
    admission::{Hook, Review},
    cluster::{Apply, Feeds, Leadership, LiveGet, Reconcile, Reconciler, SharedList, WorkQueue},
    objects::{Kind, ObjectName, Pod},
    pv_protection::{self, PvProtection},
    pvc_protection::{self, FinishedPods, PvcProtection},
    pvc_retention::{self, Known, PvcRetention, Told},
    telemetry::Metrics,
    tls::Configuration,
};
use futures::future::BoxFuture;
use kube::{Api, Client};
use std::{fmt, str::FromStr, sync::Arc};
use tokio_util::sync::CancellationToken;

/// A part of Volume Warden that can be switched on alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// See [`crate::pvc_protection`].
    PvcProtection,
    /// See [`crate::pv_protection`].
    PvProtection,
    /// See [`crate::pvc_retention`].
    PvcRetention,
}

impl Component {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::PvcProtection, Self::PvProtection, Self::PvcRetention];

    /// As in the CLI, the manifests, the metrics and the source folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::PvcProtection => pvc_protection::NAME,
            Self::PvProtection => pv_protection::NAME,
            Self::PvcRetention => pvc_retention::NAME,
        }
    }

    /// The kinds it watches.
    pub fn watches(self) -> &'static [Kind] {
        match self {
            Self::PvcProtection => &[Kind::Pod, Kind::PersistentVolumeClaim],
            Self::PvProtection => &[Kind::PersistentVolume, Kind::PersistentVolumeClaim],
            Self::PvcRetention => &[Kind::StatefulSet, Kind::PersistentVolumeClaim, Kind::Pod],
        }
    }

    /// Its webhook configurations, as `manifests/` name them.
    pub fn webhook_configurations(self) -> &'static [Configuration] {
        match self {
            Self::PvcProtection => &[
                Configuration::Mutating("volume-warden-pvc-protection"),
                Configuration::Validating("volume-warden-pvc-protection-guard"),
                Configuration::Validating("volume-warden-pvc-protection-binding-guard"),
            ],
            Self::PvProtection => &[
                Configuration::Mutating("volume-warden-pv-protection"),
                Configuration::Validating("volume-warden-pv-protection-guard"),
            ],
            Self::PvcRetention => &[Configuration::Mutating("volume-warden-pvc-retention")],
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Component {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|component| component.name() == name)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|component| component.name()).collect();
                format!(
                    "there is no component of that name; there are {}",
                    known.join(", ")
                )
            })
    }
}

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
    /// The writer.
    pub apply: Arc<Apply>,
    /// Whether to reconcile.
    pub leadership: Leadership,
    /// Where to count.
    pub metrics: Arc<Metrics>,
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
        let mut watched: Vec<Kind> = Vec::new();
        for kind in components.iter().flat_map(|component| component.watches()) {
            if !watched.contains(kind) {
                watched.push(*kind);
            }
        }
        let client = context.client.clone();
        let live_pods = SharedList::new(context.metrics.clone(), move |namespace| {
            Api::namespaced(client.clone(), namespace)
        });
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
            }
        }
        assembly
    }

    fn add_pvc_protection(&mut self, stop: &CancellationToken) {
        let (context, feeds) = (&self.context, self.feeds.clone());
        let queue = Arc::new(WorkQueue::default());
        self.hooks.extend(pvc_protection::hooks(
            &feeds.claims,
            &feeds.pods,
            &context.exempt,
        ));
        let component = PvcProtection {
            claims: feeds.claims,
            pods: feeds.pods,
            live_pods: self.live_pods.clone(),
            apply: context.apply.clone(),
            finished_pods: context.finished_pods,
        };
        component.listen(&queue);
        self.reconcile(component, queue, stop);
    }

    fn add_pv_protection(&mut self, stop: &CancellationToken) {
        let (context, feeds) = (&self.context, self.feeds.clone());
        let queue = Arc::new(WorkQueue::default());
        self.hooks.extend(pv_protection::hooks(
            &feeds.claims,
            context.namespace.as_deref(),
        ));
        let component = PvProtection {
            volumes: feeds.volumes,
            apply: context.apply.clone(),
        };
        component.listen(&queue);
        self.reconcile(component, queue, stop);
    }

    /// Where claims are protected too, the claims of sets get their finalizer in the same call: the manifests have them sent here only.
    fn add_pvc_retention(&mut self, protects: bool, stop: &CancellationToken) {
        let (context, sets) = (&self.context, &self.feeds.sets);
        let client = context.client.clone();
        let live_sets = LiveGet::new(context.metrics.clone(), move |namespace| {
            Api::namespaced(client.clone(), namespace)
        });
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
            told: Told::default(),
        };
        component.listen(&queue);
        component.count(&context.metrics);
        self.reconcile(component, queue, stop);
    }

    fn reconcile<R: Reconcile>(
        &mut self,
        component: R,
        queue: Arc<WorkQueue<ObjectName>>,
        stop: &CancellationToken,
    ) {
        let (leadership, metrics) = (
            self.context.leadership.clone(),
            self.context.metrics.clone(),
        );
        let reconciler = Reconciler {
            reconcile: Arc::new(component),
            queue,
            leadership,
            metrics,
        };
        let (synced, stop) = (self.synced(), stop.clone());
        self.reconcilers.push(Box::pin(async move {
            // A half-filled index knows too few users of a claim. The live read would find them, at a cost.
            tokio::select! { () = stop.cancelled() => return, () = synced => {} }
            reconciler.run(stop).await;
        }));
    }

    fn synced(&self) -> impl Future<Output = ()> + Send + 'static {
        let (feeds, watched) = (self.feeds.clone(), self.watched.clone());
        async move {
            for kind in watched {
                feeds.synced(kind).await;
            }
        }
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

    /// Tells which watches have no complete list yet.
    pub fn missing(&self) -> impl Fn() -> Vec<String> + Send + Sync + 'static {
        let (feeds, watched) = (self.feeds.clone(), self.watched.clone());
        move || {
            let unlisted = watched.iter().filter(|kind| !feeds.is_synced(**kind));
            unlisted
                .map(|kind| format!("{} are not listed yet", kind.plural()))
                .collect()
        }
    }
}
