//! What pvc-retention counts: sets, and what becomes of their claims.

use super::{
    Metrics,
    labels::{Fate, Level, Retention},
};
use prometheus_client::registry::Registry;

#[derive(Debug, Default)]
pub(super) struct RetentionMetrics {
    sets: Level<Retention>,
    claims: Level<Fate>,
}

impl RetentionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
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
}

impl Metrics {
    /// There are so many StatefulSets of this retention policy.
    pub fn sets(&self, when_deleted: &'static str, when_scaled: &'static str, count: i64) {
        let retention = Retention {
            when_deleted,
            when_scaled,
        };
        self.retention.sets.get_or_create(&retention).set(count);
    }

    /// This is what becomes of so many claims of StatefulSets.
    pub fn claims(&self, fate: &'static str, count: i64) {
        let claims = &self.retention.claims;
        claims.get_or_create(&Fate { fate }).set(count);
    }
}
