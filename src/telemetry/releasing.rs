//! What pv-releaser counts.

use super::{
    Metrics,
    labels::{Fate, Level},
};
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};

#[derive(Debug, Default)]
pub(super) struct ReleasingMetrics {
    orphans: Gauge,
    released: Level<Fate>,
}

impl ReleasingMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "orphaned_volumes",
            "Released volumes that nobody is known to make available again",
            self.orphans.clone(),
        );
        registry.register(
            "released_volumes",
            "Released volumes by what becomes of them",
            self.released.clone(),
        );
    }
}

impl Metrics {
    /// So many volumes are Released for good.
    pub fn orphaned_volumes(&self, count: i64) {
        self.releasing.orphans.set(count);
    }

    /// This is what becomes of so many Released volumes.
    pub fn released_volumes(&self, fate: &'static str, count: i64) {
        let released = &self.releasing.released;
        released.get_or_create(&Fate { fate }).set(count);
    }
}
