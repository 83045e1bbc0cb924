//! Reviews and connections of the webhook server.

use super::{
    Metrics,
    labels::{Buckets, Count, Durations, Path, Reviewed},
};
use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct AdmissionMetrics {
    reviews: Count<Reviewed>,
    durations: Durations<Path>,
    connections: Gauge,
}

impl Default for AdmissionMetrics {
    fn default() -> Self {
        Self {
            reviews: Family::default(),
            durations: Family::new_with_constructor(Buckets),
            connections: Gauge::default(),
        }
    }
}

impl AdmissionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "admission_reviews",
            "Admission reviews by path and verdict",
            self.reviews.clone(),
        );
        let help = "Time from a review's arrival to its answer";
        let durations = self.durations.clone();
        registry.register_with_unit("admission_duration", help, Unit::Seconds, durations);
        registry.register(
            "admission_connections",
            "Open connections of the webhook server",
            self.connections.clone(),
        );
    }
}

impl Metrics {
    /// A review was answered.
    pub fn reviewed(&self, path: &'static str, verdict: &'static str, took: Duration) {
        let reviewed = Reviewed { path, verdict };
        self.admission.reviews.get_or_create(&reviewed).inc();
        let durations = self.admission.durations.get_or_create(&Path { path });
        durations.observe(took.as_secs_f64());
    }

    /// A connection opened (1) or closed (-1).
    pub fn connected(&self, change: i64) {
        self.admission.connections.inc_by(change);
    }
}
