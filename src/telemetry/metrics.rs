//! Prometheus metrics. Label values come from small fixed sets, never from object names.

use super::{
    BackendMetrics, admission::AdmissionMetrics, build, certificate::CertificateMetrics,
    feeds::FeedMetrics, process::Process, protection::ProtectionMetrics,
    provisioning::ProvisioningMetrics, releasing::ReleasingMetrics, retention::RetentionMetrics,
    work::WorkMetrics,
};
use prometheus_client::{encoding::text, registry::Registry};
use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Everything that is counted. One per process, passed by hand. Each concern has a file of its own beside this one, with what it
/// counts and how.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub(super) work: WorkMetrics,
    pub(super) feeds: FeedMetrics,
    pub(super) protection: ProtectionMetrics,
    pub(super) retention: RetentionMetrics,
    pub(super) provisioning: ProvisioningMetrics,
    pub(super) releasing: ReleasingMetrics,
    pub(super) admission: AdmissionMetrics,
    pub(super) certificate: CertificateMetrics,
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
            work: WorkMetrics::default(),
            feeds: FeedMetrics::default(),
            protection: ProtectionMetrics::default(),
            retention: RetentionMetrics::default(),
            provisioning: ProvisioningMetrics::default(),
            releasing: ReleasingMetrics::default(),
            admission: AdmissionMetrics::default(),
            certificate: CertificateMetrics::default(),
            backend: BackendMetrics::default(),
            observers: Observers::default(),
        };
        let registry = metrics.registry.sub_registry_with_prefix("volume_warden");
        metrics.work.register(registry);
        metrics.feeds.register(registry);
        metrics.protection.register(registry);
        metrics.retention.register(registry);
        metrics.provisioning.register(registry);
        metrics.releasing.register(registry);
        metrics.admission.register(registry);
        metrics.certificate.register(registry);
        metrics.backend.register(registry);
        build::register(registry);
        metrics.registry.register_collector(Box::new(Process));
        metrics
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
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
