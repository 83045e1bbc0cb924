//! What pv-releaser counts.

use super::Metrics;
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};

#[derive(Debug, Default)]
pub(super) struct ReleasingMetrics {
    orphans: Gauge,
}

impl ReleasingMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "orphaned_volumes",
            "Released volumes that nobody is known to make available again",
            self.orphans.clone(),
        );
    }
}

impl Metrics {
    /// So many volumes are Released for good.
    pub fn orphaned_volumes(&self, count: i64) {
        self.releasing.orphans.set(count);
    }
}
