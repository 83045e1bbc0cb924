//! A component: a part of Volume Warden that can be enabled alone.
//!
//! Components are values in one list, [`crate::components::ALL`]. The folder of a component holds
//! the code that only this component needs, such as its flags, metrics, webhooks and reconciler.

use crate::{
    admission::{Hook, Review},
    clock::Clock,
    cluster::{
        Apply, Configuration, Excluded, Feeds, LatestTime, Leadership, LeaseName, Observation,
        Reconcile, Reconciler, SharedList, WorkQueue,
    },
    objects::{ControllerId, Kind, Pod},
    telemetry::Metrics,
};
use clap::{ArgMatches, Args, Command};
use futures::future::BoxFuture;
use kube::Client;
use std::{fmt, sync::Arc};
use tokio_util::sync::CancellationToken;

/// A component as an entry of [`crate::components::ALL`].
pub type ComponentRef = &'static dyn Component;

/// A part of Volume Warden that can be enabled alone.
pub trait Component: Sync {
    /// The name of the component in the CLI, the manifests, the metrics and the labels of the
    /// Lease.
    fn name(&self) -> &'static str;

    /// The webhook configurations of the component, by their names in `manifests/`.
    fn webhook_configurations(&self) -> &'static [Configuration] {
        &[]
    }

    /// Whether the claims or volumes that the component manages are labelled with its
    /// `--controller-id`. Installations with different ids then run side by side, each with its
    /// own Lease.
    fn is_per_controller_id(&self) -> bool {
        false
    }

    /// Whether the component runs if the command line names no components. A component that needs
    /// further RBAC permissions returns false: in an installation without these permissions, the
    /// process would never be ready.
    fn runs_by_default(&self) -> bool {
        true
    }

    /// Adds the flags of the component to `volume-warden run`. The flags of all components share
    /// one command line, so their names must differ.
    fn flags(&self, run: Command) -> Command {
        run
    }

    /// Builds the parts of the component without starting them.
    ///
    /// # Errors
    /// When the options of the component cannot be used. The process then exits.
    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>>;
}

impl PartialEq for dyn Component {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Display for dyn Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for dyn Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The clients, caches and options that all components of a process share.
pub struct Shared {
    /// The parsed command line of `volume-warden run`, from which [`Shared::options`] reads the
    /// options of one component.
    pub flags: ArgMatches,
    /// The API client. Its reads are live: the API server answers them, not the cache of a watch.
    pub client: Client,
    /// The only namespace whose claims, pods, StatefulSets and lists of deleted claims are watched,
    /// if `--namespace` is set. Cluster-scoped objects are watched in any case.
    pub namespace: Option<String>,
    /// The namespace in which Volume Warden itself runs.
    pub system_namespace: String,
    /// Namespaces in which the webhooks refuse no pod and no claim, and create no claims for pods:
    /// those of `--exempt-namespaces`, and the system namespace. The reconcilers act in them, and
    /// create the claims of their pods.
    pub exempt: Vec<String>,
    /// Namespaces that have opted out by the label `volume-warden.dev/exclude=true`. [`Apply`] and
    /// the webhooks, except [`Parts::safeguards`], leave objects in these namespaces unchanged.
    /// Volumes have no namespace, so a component that handles volumes checks the namespace of their
    /// claims.
    pub excluded: Excluded,
    /// The name of this installation in managed-by labels.
    pub controller_id: ControllerId,
    /// Whether `--dry-run` is set: components decide and log, but change nothing. [`Apply`]
    /// enforces this for its writes; a component that writes in any other way must check it.
    pub dry_run: bool,
    /// The Lease that this process competes for; Events about the process name it.
    pub lease: LeaseName,
    /// One watch feed for each kind. Only the feeds of the kinds in [`Parts::watches`] run, and
    /// that of namespaces for the opt-out.
    pub feeds: Feeds,
    /// Lists the pods of a namespace live. Callers that wait for the same namespace share one LIST.
    pub live_pods: Arc<SharedList<Pod>>,
    /// Writes to Kubernetes for the components. Only the record of namespaces that namespace-gc
    /// keeps in a ConfigMap is written without it.
    pub apply: Arc<Apply>,
    /// Whether this replica leads. Only the leader reconciles and publishes Events.
    pub leadership: Leadership,
    /// Since when the cluster has been watched without a break. Only a component that needs it,
    /// pvc-expiry, starts it.
    pub observation: Arc<Observation>,
    /// The registry to which components add their metrics.
    pub metrics: Arc<Metrics>,
    /// The wall clock, for times in objects and Events.
    pub clock: Clock,
    /// The later of that clock and the API server's, for times from which a wait counts.
    pub latest_time: LatestTime,
    /// Cancelled when the process shuts down.
    pub stop: CancellationToken,
}

impl Shared {
    /// Parses the options of one component from the flags that [`Component::flags`] added.
    ///
    /// # Errors
    /// When the flags were not added.
    pub fn options<T: Args>(&self) -> Result<T, clap::Error> {
        T::from_arg_matches(&self.flags)
    }
}

/// What a component consists of, ready to run.
#[derive(Default)]
pub struct Parts {
    /// The kinds to watch. The component is ready once each of these kinds is listed.
    pub watches: Vec<Kind>,
    /// The webhooks of the component, which the webhook server serves.
    pub webhooks: Vec<Hook>,
    /// Webhooks that remove annotations that only Volume Warden may set. Unlike other webhooks,
    /// they also do so in namespaces that have opted out.
    pub safeguards: Vec<Hook>,
    /// Reviews that the webhook of another component at this path carries out together with its
    /// own, if that component is enabled: the webhook configurations in `manifests/` then send the
    /// object only to that webhook.
    pub joined_reviews: Vec<(&'static str, Review)>,
    /// Tasks that the component needs to run until shutdown, such as its reconciler.
    pub tasks: Vec<BoxFuture<'static, ()>>,
    /// What the component waits for besides its watches, such as a storage backend. It delays
    /// readiness only in a process without webhooks, because webhooks must stay available.
    pub pending: Option<Pending>,
}

/// A function that returns what is not ready yet, as a sentence, or nothing if all is ready.
pub type Pending = Arc<dyn Fn() -> Option<String> + Send + Sync>;

impl Parts {
    /// The parts of a component that watches these kinds, without webhooks and tasks.
    pub fn watching(kinds: &[Kind]) -> Self {
        Self {
            watches: kinds.to_vec(),
            ..Self::default()
        }
    }

    /// Adds a reconciler. The reconciler starts once every watched kind of this component, and the
    /// namespaces for the opt-out, are listed: a partly filled index misses users of a claim, and
    /// each missed user would cost a live read. It does not wait for kinds that only other
    /// components watch.
    pub fn reconcile<R: Reconcile>(
        &mut self,
        shared: &Shared,
        reconcile: R,
        queue: Arc<WorkQueue<R::Key>>,
    ) {
        let again = shared.excluded.changes();
        for kind in &self.watches {
            shared.feeds.after_relist(*kind, again.clone());
        }
        shared.metrics.work.begun(R::COMPONENT);
        let reconciler = Reconciler {
            reconcile: Arc::new(reconcile),
            queue,
            leadership: shared.leadership.clone(),
            again,
            metrics: shared.metrics.clone(),
        };
        let (feeds, watches, stop) = (
            shared.feeds.clone(),
            [&self.watches, shared.excluded.watches()].concat(),
            shared.stop.clone(),
        );
        self.tasks.push(Box::pin(async move {
            let synced = async {
                for kind in watches {
                    feeds.synced(kind).await;
                }
            };
            tokio::select! { biased; () = stop.cancelled() => return, () = synced => {} }
            reconciler.run(stop).await;
        }));
    }
}
