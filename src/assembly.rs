//! Builds the enabled components, and collects their watches, webhooks and tasks into one process.

use crate::{
    admission::Hook,
    clock::Clock,
    cluster::{Apply, Elector, Excluded, Feeds, LatestTime, LeaseName, Observation, SharedList},
    component::{ComponentRef, Parts, Pending, Shared},
    objects::{ControllerId, Kind},
    telemetry::Metrics,
};
use clap::ArgMatches;
use futures::future::BoxFuture;
use kube::{Api, Client};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The options of one process, and its API client, clock and metrics.
pub struct Settings {
    /// The parsed command line of `volume-warden run`, from which components read their options.
    pub flags: ArgMatches,
    /// The API client, without kube's retries.
    pub client: Client,
    /// The API client of the leader election, with connections of its own. If an API server
    /// disappears without closing them, the pool of `client` may hold many dead connections, and
    /// each attempt to renew the Lease would wait for another one.
    pub lease_client: Client,
    /// The only namespace whose claims, pods, StatefulSets and lists of deleted claims are watched;
    /// all namespaces if none. Cluster-scoped objects are watched in any case.
    pub namespace: Option<String>,
    /// The namespace in which Volume Warden itself runs.
    pub system_namespace: String,
    /// Namespaces in which the webhooks refuse no pod and no claim, and create no claims for pods.
    /// The reconcilers act in them. The system namespace is added to them.
    pub exempt: Vec<String>,
    /// The name of this installation in managed-by labels.
    pub controller_id: ControllerId,
    /// Whether `--dry-run` is set, so that components write nothing. The Lease, the Secrets of
    /// certificate and webhook path, and the webhook configurations are written nevertheless.
    pub dry_run: bool,
    /// Maximum number of concurrent bulk writes, such as finalizer removals and deletions. Each
    /// other group of writes has this limit, too, but at most 16.
    pub max_in_flight: usize,
    /// The Lease for which this process competes.
    pub lease: LeaseName,
    /// The wall clock, which simulations replace.
    pub clock: Clock,
    /// The registry of the metrics that the process serves.
    pub metrics: Arc<Metrics>,
    /// Cancelled when the process shuts down.
    pub stop: CancellationToken,
}

impl Settings {
    /// Creates what the components share, and the leader election. Nothing runs yet.
    pub fn share(self) -> (Shared, Elector) {
        let (metrics, clock) = (self.metrics, self.clock);
        let latest_time = LatestTime::new(clock.clone());
        let client = latest_time.observing(&self.client);
        let leases = Api::namespaced(self.lease_client, &self.lease.namespace);
        let (elector, leadership) = Elector::new(
            leases,
            self.lease.clone(),
            metrics.clone(),
            latest_time.clone(),
        );
        let observation = Arc::new(Observation::of(self.namespace.as_deref()));
        let elector = elector.replacing_labels().observing(observation.clone());
        let feeds = Feeds::new(&metrics);
        let excluded = Excluded::by_label(&feeds, self.namespace.as_deref());
        let apply = Apply::new(
            client.clone(),
            leadership.clone(),
            self.max_in_flight,
            self.dry_run,
            metrics.clone(),
        );
        let shared = Shared {
            flags: self.flags,
            namespace: self.namespace,
            exempt: [self.exempt, vec![self.system_namespace.clone()]].concat(),
            system_namespace: self.system_namespace,
            controller_id: self.controller_id,
            dry_run: self.dry_run,
            lease: self.lease,
            feeds,
            live_pods: SharedList::new(metrics.clone(), &client),
            apply: Arc::new(apply.excluding(excluded.clone())),
            excluded,
            client,
            leadership,
            observation,
            metrics,
            clock,
            latest_time,
            stop: self.stop,
        };
        (shared, elector)
    }
}

/// The enabled components, ready to run.
pub struct Assembly {
    shared: Shared,
    watches: Vec<Kind>,
    tasks: Vec<BoxFuture<'static, ()>>,
    pending: Vec<Pending>,
    /// The webhooks of the enabled components.
    pub webhooks: Vec<Hook>,
}

impl Assembly {
    /// Builds the components. Nothing runs yet.
    ///
    /// # Errors
    /// When the options of a component cannot be used.
    pub async fn new(components: &[ComponentRef], shared: Shared) -> anyhow::Result<Self> {
        let mut assembly = Self {
            watches: shared.excluded.watches().to_vec(),
            shared,
            tasks: Vec::new(),
            pending: Vec::new(),
            webhooks: Vec::new(),
        };
        let mut joined = Vec::new();
        for component in components {
            let mut parts = component.build(&assembly.shared).await?;
            joined.append(&mut parts.joined_reviews);
            assembly.add(parts);
        }
        for (path, review) in joined {
            let review = review.outside(assembly.shared.excluded.clone());
            let webhooks = assembly.webhooks.iter_mut();
            for webhook in webhooks.filter(|webhook| webhook.path == path) {
                webhook.review = webhook.review.clone().and(review.clone());
            }
        }
        Ok(assembly)
    }

    fn add(&mut self, parts: Parts) {
        for kind in parts.watches {
            if !self.watches.contains(&kind) {
                self.watches.push(kind);
            }
        }
        for mut webhook in parts.webhooks {
            webhook.review = webhook.review.outside(self.shared.excluded.clone());
            self.webhooks.push(webhook);
        }
        self.webhooks.extend(parts.safeguards);
        self.tasks.extend(parts.tasks);
        self.pending.extend(parts.pending);
    }

    /// The clients, caches and options that the components share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The watches of the components, and that of namespaces for the opt-out, each with the plural
    /// of its kind. The futures never end.
    pub fn watches(&self) -> Vec<(&'static str, BoxFuture<'static, ()>)> {
        let (client, namespace) = (&self.shared.client, self.shared.namespace.as_deref());
        let feeds = &self.shared.feeds;
        let own = self.shared.system_namespace.as_str();
        let run = |kind: &Kind| (kind.plural(), feeds.run(*kind, client, namespace, own));
        self.watches.iter().map(run).collect()
    }

    /// Returns the tasks of the components, once; a second call returns none. The futures end at
    /// shutdown.
    pub fn tasks(&mut self) -> Vec<BoxFuture<'static, ()>> {
        std::mem::take(&mut self.tasks)
    }

    /// Returns a function that lists why this replica is not ready. What the work of a component
    /// waits for, besides its watches, is listed only if no component has webhooks.
    pub fn not_ready_reasons(&self) -> impl Fn() -> Vec<String> + Send + Sync + 'static {
        let (feeds, watches) = (self.shared.feeds.clone(), self.watches.clone());
        let pending = if self.webhooks.is_empty() {
            self.pending.clone()
        } else {
            Vec::new()
        };
        move || {
            let unlisted = watches.iter().filter(|kind| !feeds.is_synced(**kind));
            let unlisted = unlisted.map(|kind| format!("{} are not listed yet", kind.plural()));
            let pending = pending.iter().filter_map(|pending| pending());
            unlisted.chain(pending).collect()
        }
    }
}
