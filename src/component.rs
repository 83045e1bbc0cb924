//! A component: a part of Volume Warden that can be enabled alone.
//!
//! Components are values in one list, [`crate::components::ALL`]. Everything that is specific to one comes from its folder: flags,
//! metrics, webhooks, the reconciler, and its share of the Lease.

use crate::{
    admission::{Hook, Review},
    clock::Clock,
    cluster::{
        Apply, Configuration, Feeds, Leadership, LeaseName, Reconcile, Reconciler, SharedList,
        WorkQueue,
    },
    objects::{ControllerId, Kind, Pod},
    telemetry::Metrics,
};
use clap::{ArgMatches, Args, Command};
use futures::future::BoxFuture;
use kube::Client;
use std::{collections::BTreeMap, fmt, sync::Arc};
use tokio_util::sync::CancellationToken;

/// An entry of the list.
pub type ComponentRef = &'static dyn Component;

/// A part of Volume Warden that can be enabled alone.
pub trait Component: Sync {
    /// Its name in the CLI, the manifests, the metrics and the labels of the Lease.
    fn name(&self) -> &'static str;

    /// Its webhook configurations, as `manifests/` name them.
    fn webhook_configurations(&self) -> &'static [Configuration] {
        &[]
    }

    /// Whether it handles only objects labelled with its `--controller-id`. Installations with different ids then run side by side,
    /// each with its own Lease.
    fn is_per_controller_id(&self) -> bool {
        false
    }

    /// Adds its flags to `volume-warden run`. Flags of all components share one command line, so their names must differ.
    fn flags(&self, run: Command) -> Command {
        run
    }

    /// Puts it together. Nothing runs yet.
    ///
    /// # Errors
    /// When its options cannot be used. The process then exits.
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

/// The label of every Lease of Volume Warden, and its value.
pub const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "volume-warden");
/// Prefix of the labels that name the components of a Lease.
const LEADS: &str = "volume-warden.dev/";

/// The labels of the Lease of a process that runs these components.
pub fn lease_labels(components: &[ComponentRef]) -> BTreeMap<String, String> {
    let (part_of, volume_warden) = PART_OF;
    let leads = components.iter().map(|each| format!("{LEADS}{each}"));
    let mut labels: BTreeMap<_, _> = leads.map(|key| (key, String::new())).collect();
    labels.insert(part_of.to_owned(), volume_warden.to_owned());
    labels
}

/// Whether a Lease with these labels elects the leader of the component.
pub fn is_led_by(component: ComponentRef, labels: &BTreeMap<String, String>) -> bool {
    labels.contains_key(&format!("{LEADS}{component}"))
}

/// What all components of a process share.
pub struct Shared {
    /// The command line of `volume-warden run`: see [`Shared::options`].
    pub flags: ArgMatches,
    /// For live reads.
    pub client: Client,
    /// The only namespace to handle, if `--namespace` is set.
    pub namespace: Option<String>,
    /// Where Volume Warden itself runs.
    pub system_namespace: String,
    /// Namespaces in which admission refuses nothing.
    pub exempt: Vec<String>,
    /// The name of this installation in managed-by labels.
    pub controller_id: ControllerId,
    /// Decide and log only. The writer enforces it; a component that changes anything elsewhere must ask.
    pub dry_run: bool,
    /// The Lease of this process.
    pub lease: LeaseName,
    /// One feed for each kind. Only those in [`Parts::watches`] run.
    pub feeds: Feeds,
    /// Live LISTs of pods. Components share them.
    pub live_pods: Arc<SharedList<Pod>>,
    /// The only writer.
    pub apply: Arc<Apply>,
    /// Whether this replica leads.
    pub leadership: Leadership,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// The wall clock.
    pub clock: Clock,
    /// Cancelled when the process shuts down.
    pub stop: CancellationToken,
}

impl Shared {
    /// The component's own options, as [`Component::flags`] added them.
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
    /// Kinds to watch. The component is ready once each is listed.
    pub watches: Vec<Kind>,
    /// Its webhooks.
    pub webhooks: Vec<Hook>,
    /// Reviews that run in the call of another component's webhook, at this path, if that component is enabled: `manifests/` sends the
    /// object there only.
    pub joined_reviews: Vec<(&'static str, Review)>,
    /// Tasks that run until shutdown.
    pub tasks: Vec<BoxFuture<'static, ()>>,
    /// What its work waits for besides watches. It counts for readiness only in a process without webhooks: those must stay
    /// available.
    pub pending: Option<Pending>,
}

/// Returns what is not ready yet, as a sentence.
pub type Pending = Arc<dyn Fn() -> Option<String> + Send + Sync>;

impl Parts {
    /// Watches these kinds. Nothing else yet.
    pub fn watching(kinds: &[Kind]) -> Self {
        Self {
            watches: kinds.to_vec(),
            ..Self::default()
        }
    }

    /// Adds a reconciler. It starts once every watched kind is listed: a partly filled index misses users of a claim, and each would
    /// cost a live read. A kind that cannot be listed delays no other component.
    pub fn reconcile<R: Reconcile>(
        &mut self,
        shared: &Shared,
        reconcile: R,
        queue: Arc<WorkQueue<R::Key>>,
    ) {
        let reconciler = Reconciler {
            reconcile: Arc::new(reconcile),
            queue,
            leadership: shared.leadership.clone(),
            metrics: shared.metrics.clone(),
        };
        let (feeds, watches, stop) = (
            shared.feeds.clone(),
            self.watches.clone(),
            shared.stop.clone(),
        );
        self.tasks.push(Box::pin(async move {
            let synced = async {
                for kind in watches {
                    feeds.synced(kind).await;
                }
            };
            tokio::select! { () = stop.cancelled() => return, () = synced => {} }
            reconciler.run(stop).await;
        }));
    }
}
