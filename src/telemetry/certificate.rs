//! The served certificate.

use super::Metrics;
use prometheus_client::{
    metrics::gauge::Gauge,
    registry::{Registry, Unit},
};

#[derive(Debug, Default)]
pub(super) struct CertificateMetrics {
    not_after: Gauge,
}

impl CertificateMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "When the served certificate expires, in seconds since 1970";
        let not_after = self.not_after.clone();
        registry.register_with_unit("certificate_not_after", help, Unit::Seconds, not_after);
    }
}

impl Metrics {
    /// The served certificate expires then.
    pub fn certificate_expires(&self, seconds_since_1970: i64) {
        self.certificate.not_after.set(seconds_since_1970);
    }
}
