//! Prometheus metrics. Label values come from small fixed sets, never from object names.

use super::{
    BackendMetrics,
    labels::{Acted, Buckets, Component, Fate, Path, Reconciled, Resource, Retention, Reviewed},
    process::Process,
};
use crate::objects::Kind;
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

type Count<L> = Family<L, Counter>;
type Level<L> = Family<L, Gauge>;
type Durations<L> = Family<L, Histogram, Buckets>;

/// Everything that is counted. One per process, passed by hand.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    actions: Count<Acted>,
    reconciles: Durations<Reconciled>,
    queue_depth: Level<Component>,
    feed_synced: Level<Resource>,
    feed_lists: Count<Resource>,
    feed_errors: Count<Resource>,
    live_lists: Count<Resource>,
    live_reads: Count<Resource>,
    access_reviews: Counter,
    awaiting_claims: Gauge,
    orphaned_volumes: Gauge,
    sets: Level<Retention>,
    claims: Level<Fate>,
    reviews: Count<Reviewed>,
    review_durations: Durations<Path>,
    connections: Gauge,
    leader: Gauge,
    certificate_not_after: Gauge,
    /// What namespace-gc counts.
    pub backend: BackendMetrics,
    observers: Observers,
}

/// Called before each scrape.
#[derive(Default)]
struct Observers(Mutex<Vec<Observer>>);

type Observer = Box<dyn Fn(&Metrics) + Send + Sync>;

impl Observers {
    fn lock(&self) -> MutexGuard<'_, Vec<Observer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} observers", self.lock().len())
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            actions: Family::default(),
            reconciles: Family::new_with_constructor(Buckets),
            queue_depth: Family::default(),
            feed_synced: Family::default(),
            feed_lists: Family::default(),
            feed_errors: Family::default(),
            live_lists: Family::default(),
            live_reads: Family::default(),
            access_reviews: Counter::default(),
            awaiting_claims: Gauge::default(),
            orphaned_volumes: Gauge::default(),
            sets: Family::default(),
            claims: Family::default(),
            reviews: Family::default(),
            review_durations: Family::new_with_constructor(Buckets),
            connections: Gauge::default(),
            leader: Gauge::default(),
            certificate_not_after: Gauge::default(),
            backend: BackendMetrics::default(),
            observers: Observers::default(),
        };
        metrics.register_background();
        metrics.register_retention();
        metrics.register_provisioning();
        metrics.register_admission();
        let registry = metrics.registry.sub_registry_with_prefix("volume_warden");
        metrics.backend.register(registry);
        metrics
    }

    fn register_background(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("volume_warden");
        registry.register(
            "actions",
            "Actions by component, action, reason and outcome",
            self.actions.clone(),
        );
        let help = "Time spent on one object, waiting for live reads and writes included";
        registry.register_with_unit(
            "reconcile_duration",
            help,
            Unit::Seconds,
            self.reconciles.clone(),
        );
        registry.register(
            "queue_depth",
            "Objects waiting for or under reconciliation",
            self.queue_depth.clone(),
        );
        registry.register(
            "feed_synced",
            "1 once the first complete list has arrived",
            self.feed_synced.clone(),
        );
        registry.register(
            "feed_lists",
            "Complete lists that a watch began with",
            self.feed_lists.clone(),
        );
        registry.register(
            "feed_errors",
            "Watches that failed",
            self.feed_errors.clone(),
        );
        registry.register(
            "live_lists",
            "Live lists read to confirm that something is unused",
            self.live_lists.clone(),
        );
        registry.register(
            "live_reads",
            "Single objects read live before something is decided about others",
            self.live_reads.clone(),
        );
        registry.register(
            "leader",
            "1 while this replica reconciles",
            self.leader.clone(),
        );
    }

    fn register_retention(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("volume_warden");
        registry.register(
            "statefulsets",
            "StatefulSets with claim templates by retention policy",
            self.sets.clone(),
        );
        registry.register(
            "statefulset_claims",
            "Claims of StatefulSets by what becomes of them",
            self.claims.clone(),
        );
    }

    fn register_provisioning(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("volume_warden");
        registry.register(
            "access_reviews",
            "SubjectAccessReviews of those who create annotated pods",
            self.access_reviews.clone(),
        );
        registry.register(
            "awaiting_claims",
            "Claims made at admission whose pod has not been seen yet",
            self.awaiting_claims.clone(),
        );
        registry.register(
            "orphaned_volumes",
            "Released volumes that nobody is known to make available again",
            self.orphaned_volumes.clone(),
        );
    }

    fn register_admission(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("volume_warden");
        registry.register(
            "admission_reviews",
            "Admission reviews by path and verdict",
            self.reviews.clone(),
        );
        let help = "Time from a review's arrival to its answer";
        registry.register_with_unit(
            "admission_duration",
            help,
            Unit::Seconds,
            self.review_durations.clone(),
        );
        registry.register(
            "admission_connections",
            "Open connections of the webhook server",
            self.connections.clone(),
        );
        let help = "When the served certificate expires, in seconds since 1970";
        registry.register_with_unit(
            "certificate_not_after",
            help,
            Unit::Seconds,
            self.certificate_not_after.clone(),
        );
        self.registry.register_collector(Box::new(Process));
    }

    /// Calls `observe` before each scrape: for levels that are cheaper to count when somebody asks than to keep.
    pub fn before_scrape(&self, observe: impl Fn(&Self) + Send + Sync + 'static) {
        self.observers.lock().push(Box::new(observe));
    }

    /// The OpenMetrics text of it all.
    pub fn text(&self) -> String {
        for observe in self.observers.lock().iter() {
            observe(self);
        }
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }

    /// An action was taken or not.
    pub fn acted(
        &self,
        component: &'static str,
        action: &'static str,
        reason: &'static str,
        outcome: &'static str,
    ) {
        self.actions
            .get_or_create(&Acted {
                component,
                action,
                reason,
                outcome,
            })
            .inc();
    }

    /// An object was looked at.
    pub fn reconciled(&self, component: &'static str, took: Duration, settled: bool) {
        let outcome = if settled { "Settled" } else { "Retry" };
        self.reconciles
            .get_or_create(&Reconciled { component, outcome })
            .observe(took.as_secs_f64());
    }

    /// So many objects are waiting or being looked at.
    pub fn queue_depth(&self, component: &'static str, depth: usize) {
        self.queue_depth
            .get_or_create(&Component { component })
            .set(depth.try_into().unwrap_or(i64::MAX));
    }

    /// A feed has a complete list.
    pub fn feed_synced(&self, kind: Kind) {
        self.feed_synced
            .get_or_create(&Resource {
                resource: kind.plural(),
            })
            .set(1);
    }

    /// A feed began a complete list.
    pub fn feed_listed(&self, kind: Kind) {
        self.feed_lists
            .get_or_create(&Resource {
                resource: kind.plural(),
            })
            .inc();
    }

    /// A feed's watch failed.
    pub fn feed_failed(&self, kind: Kind) {
        self.feed_errors
            .get_or_create(&Resource {
                resource: kind.plural(),
            })
            .inc();
    }

    /// A live list was begun.
    pub fn live_listed(&self, kind: Kind) {
        self.live_lists
            .get_or_create(&Resource {
                resource: kind.plural(),
            })
            .inc();
    }

    /// A single object was read live.
    pub fn live_read(&self, kind: Kind) {
        self.live_reads
            .get_or_create(&Resource {
                resource: kind.plural(),
            })
            .inc();
    }

    /// There are so many StatefulSets of this retention policy.
    pub fn sets(&self, when_deleted: &'static str, when_scaled: &'static str, count: i64) {
        let retention = Retention {
            when_deleted,
            when_scaled,
        };
        self.sets.get_or_create(&retention).set(count);
    }

    /// This is what becomes of so many claims of StatefulSets.
    pub fn claims(&self, fate: &'static str, count: i64) {
        self.claims.get_or_create(&Fate { fate }).set(count);
    }

    /// The API server was asked what somebody may do.
    pub fn access_reviewed(&self) {
        self.access_reviews.inc();
    }

    /// So many claims await their pod.
    pub fn awaiting_claims(&self, count: i64) {
        self.awaiting_claims.set(count);
    }

    /// So many volumes are Released for good.
    pub fn orphaned_volumes(&self, count: i64) {
        self.orphaned_volumes.set(count);
    }

    /// A review was answered.
    pub fn reviewed(&self, path: &'static str, verdict: &'static str, took: Duration) {
        self.reviews
            .get_or_create(&Reviewed { path, verdict })
            .inc();
        self.review_durations
            .get_or_create(&Path { path })
            .observe(took.as_secs_f64());
    }

    /// A connection opened (1) or closed (-1).
    pub fn connected(&self, change: i64) {
        self.connections.inc_by(change);
    }

    /// Whether this replica reconciles.
    pub fn leading(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// The served certificate expires then.
    pub fn certificate_expires(&self, seconds_since_1970: i64) {
        self.certificate_not_after.set(seconds_since_1970);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
