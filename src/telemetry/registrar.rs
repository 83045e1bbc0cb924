//! Creates metrics and registers them with their name and help text.

use super::labels::{Buckets, Durations, LabelSet};
use prometheus_client::{
    metrics::family::Family,
    registry::{Metric, Registry, Unit},
};

/// Registers metrics. Every name gets the prefix `volume_warden_`; a name that is registered twice
/// appears twice in a scrape.
#[derive(Debug)]
pub struct Registrar<'a>(&'a mut Registry);

impl<'a> Registrar<'a> {
    pub(super) fn new(registry: &'a mut Registry) -> Self {
        Self(registry.sub_registry_with_prefix("volume_warden"))
    }

    /// Creates and registers a metric in its initial state.
    pub fn add<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register(name, help, metric.clone());
        metric
    }

    /// Creates and registers a metric in seconds, in its initial state. Its name gets the suffix
    /// `_seconds`.
    pub fn add_seconds<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0
            .register_with_unit(name, help, Unit::Seconds, metric.clone());
        metric
    }

    /// Creates and registers a histogram of durations. Its name gets the suffix `_seconds`.
    pub(crate) fn add_durations<L: LabelSet>(&mut self, name: &str, help: &str) -> Durations<L> {
        let metric = Family::new_with_constructor(Buckets);
        self.0
            .register_with_unit(name, help, Unit::Seconds, metric.clone());
        metric
    }

    pub(super) fn registry(&mut self) -> &mut Registry {
        self.0
    }
}
