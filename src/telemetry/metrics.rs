//! Prometheus metrics. Label values come from small fixed sets, never from object names.

use super::{
    admission::AdmissionMetrics, build, certificate::CertificateMetrics, feeds::FeedMetrics,
    process::Process, registrar::Registrar, work::WorkMetrics,
};
use prometheus_client::{encoding::text, registry::Registry};
use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The metrics of the process. One per process, passed by hand. What every component uses is here;
/// a component registers its own with [`Metrics::register`].
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Actions, reconciles and the Lease.
    pub work: WorkMetrics,
    /// Watches and live reads.
    pub feeds: FeedMetrics,
    /// Reviews and connections of the webhook server.
    pub admission: AdmissionMetrics,
    /// The certificate, and what the webhook configurations say of it.
    pub certificate: CertificateMetrics,
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
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process));
        let mut own = Registrar::new(&mut registry);
        build::register(own.registry());
        Self {
            work: WorkMetrics::new(&mut own),
            feeds: FeedMetrics::new(&mut own),
            admission: AdmissionMetrics::new(&mut own),
            certificate: CertificateMetrics::new(&mut own),
            observers: Observers::default(),
            registry: Mutex::new(registry),
        }
    }

    /// Registers the metrics of a component.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registrar<'_>) -> T) -> T {
        register(&mut Registrar::new(&mut self.registry()))
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `observe` before each scrape, for gauges that are cheaper to compute on demand than
    /// to maintain.
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
        let _ = text::encode(&mut text, &self.registry());
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
