//! What pvc-provisioner counts.

use super::Metrics;
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

#[derive(Debug, Default)]
pub(super) struct ProvisioningMetrics {
    access_reviews: Counter,
    awaiting_claims: Gauge,
}

impl ProvisioningMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "access_reviews",
            "SubjectAccessReviews of those who create annotated pods",
            self.access_reviews.clone(),
        );
        registry.register(
            "awaiting_claims",
            "Claims created at admission that have no owner yet: pending ones, and ones without a pod",
            self.awaiting_claims.clone(),
        );
    }
}

impl Metrics {
    /// The API server was asked what somebody may do.
    pub fn access_reviewed(&self) {
        self.provisioning.access_reviews.inc();
    }

    /// So many claims have no owner yet.
    pub fn awaiting_claims(&self, count: i64) {
        self.provisioning.awaiting_claims.set(count);
    }
}
