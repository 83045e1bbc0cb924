//! Prometheus metrics. Label values come from small fixed sets, never from object names.

use super::{
    admission::AdmissionMetrics, build, certificate::CertificateMetrics, process::Process,
    registrar::Registrar, watches::WatchMetrics, work::WorkMetrics,
};
use parking_lot::Mutex;
use prometheus_client::{encoding::text, registry::Registry};
use std::fmt;

/// The metrics of the process. There is one instance per process, which is passed as a value. It
/// contains the metrics that do not belong to one component; a component registers its own with
/// [`Metrics::register`].
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Metrics of the reconcilers, the leader election and readiness.
    pub work: WorkMetrics,
    /// Metrics of watches and live reads.
    pub watches: WatchMetrics,
    /// Metrics of the reviews and connections of the webhook server.
    pub admission: AdmissionMetrics,
    /// Metrics of the certificates, and of the webhooks that have a wrong caBundle or path, or the
    /// failurePolicy Fail.
    pub certificate: CertificateMetrics,
    observers: Observers,
}

/// Functions that are called before each scrape.
#[derive(Default)]
struct Observers(Mutex<Vec<Observer>>);

type Observer = Box<dyn Fn(&Metrics) + Send + Sync>;

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} observers", self.0.lock().len())
    }
}

impl Metrics {
    /// Creates the metrics without recorded values.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process));
        let mut own = Registrar::new(&mut registry);
        build::register(own.registry());
        Self {
            work: WorkMetrics::new(&mut own),
            watches: WatchMetrics::new(&mut own),
            admission: AdmissionMetrics::new(&mut own),
            certificate: CertificateMetrics::new(&mut own),
            observers: Observers::default(),
            registry: Mutex::new(registry),
        }
    }

    /// Adds the metrics that `register` creates, which are those of one component.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registrar<'_>) -> T) -> T {
        register(&mut Registrar::new(&mut self.registry.lock()))
    }

    /// Calls `observe` before each rendering of the metrics, for gauges that are cheaper to compute
    /// on demand than to maintain.
    pub fn before_scrape(&self, observe: impl Fn(&Self) + Send + Sync + 'static) {
        self.observers.0.lock().push(Box::new(observe));
    }

    /// Drops all functions of [`Self::before_scrape`].
    pub fn forget_observers(&self) {
        self.observers.0.lock().clear();
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub fn text(&self) -> String {
        for observe in self.observers.0.lock().iter() {
            observe(self);
        }
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut text, &self.registry.lock());
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
