//! Reviews and connections of the webhook server.

use super::labels::{Buckets, Count, Durations, Outcome, Path, Reviewed};
use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use std::time::Duration;

#[derive(Debug)]
pub struct AdmissionMetrics {
    reviews: Count<Reviewed>,
    durations: Durations<Path>,
    connections: Gauge,
    strangers: Count<Outcome>,
}

impl Default for AdmissionMetrics {
    fn default() -> Self {
        Self {
            reviews: Family::default(),
            durations: Family::new_with_constructor(Buckets),
            connections: Gauge::default(),
            strangers: Family::default(),
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
            "Open connections of the webhook server that have shown a secret path",
            self.connections.clone(),
        );
        registry.register(
            "admission_unauthenticated_connections",
            "Connections that ended without having shown a secret path, by how they ended",
            self.strangers.clone(),
        );
    }
}

impl AdmissionMetrics {
    /// A review was answered.
    pub fn reviewed(&self, path: &'static str, verdict: &'static str, took: Duration) {
        let reviewed = Reviewed { path, verdict };
        self.reviews.get_or_create(&reviewed).inc();
        let durations = self.durations.get_or_create(&Path { path });
        durations.observe(took.as_secs_f64());
    }

    /// A connection has shown a secret path (1), or one that had is closed (-1).
    pub fn connected(&self, change: i64) {
        self.connections.inc_by(change);
    }

    /// A connection that has not shown a secret path is closed.
    pub fn stranger_left(&self, outcome: &'static str) {
        let outcome = Outcome { outcome };
        self.strangers.get_or_create(&outcome).inc();
    }
}
