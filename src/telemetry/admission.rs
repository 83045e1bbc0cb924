//! Metrics of the reviews and connections of the webhook server.

use super::{
    Registrar,
    labels::{Count, Durations, Outcome, Path, Reviewed},
};
use prometheus_client::metrics::gauge::Gauge;
use std::time::Duration;

/// The verdict of a review that could not be answered.
pub const UNAVAILABLE: &str = "Unavailable";
/// The verdict of a request whose body is no review.
pub const UNREADABLE: &str = "Unreadable";
/// The verdict of a review that only a part of the components answered.
pub const PARTIAL: &str = "Partial";
/// The verdict of a review whose client did not wait for the answer.
pub const ABANDONED: &str = "Abandoned";
const FAILURES: [&str; 4] = [UNAVAILABLE, UNREADABLE, PARTIAL, ABANDONED];

/// The metrics of the webhook server.
#[derive(Debug)]
pub struct AdmissionMetrics {
    reviews: Count<Reviewed>,
    durations: Durations<Path>,
    connections: Gauge,
    unauthenticated: Count<Outcome>,
}

impl AdmissionMetrics {
    pub(super) fn new(own: &mut Registrar<'_>) -> Self {
        Self {
            reviews: own.add("admission_reviews", "Admission reviews by path and verdict"),
            durations: own.add_durations(
                "admission_duration",
                "Time from a review's arrival to its answer, or to its end without one",
            ),
            connections: own.add(
                "admission_connections",
                "Open connections of the webhook server on which a request to the secret path has \
                 arrived",
            ),
            unauthenticated: own.add(
                "admission_unauthenticated_connections",
                "Connections of the webhook server that ended before a request to the secret path \
                 was accepted on them, by how they ended",
            ),
        }
    }

    /// Creates the series about failed reviews of a path when the server begins, so that `rate`
    /// includes the first failure.
    pub fn begun(&self, path: &'static str) {
        for verdict in FAILURES {
            drop(self.reviews.get_or_create(&Reviewed { path, verdict }));
        }
    }

    /// Counts a review by path and verdict, even one that could not be answered, and records how
    /// long it took.
    pub fn reviewed(&self, path: &'static str, verdict: &'static str, took: Duration) {
        let reviewed = Reviewed { path, verdict };
        self.reviews.get_or_create(&reviewed).inc();
        let durations = self.durations.get_or_create(&Path { path });
        durations.observe(took.as_secs_f64());
    }

    /// Changes the number of open connections on which a request with a secret path was accepted:
    /// by 1 for a new one, by -1 for one that has ended.
    pub fn connected(&self, change: i64) {
        self.connections.inc_by(change);
    }

    /// Counts a connection that ended before a request with a secret path was accepted on it.
    pub fn unauthenticated_closed(&self, outcome: &'static str) {
        let outcome = Outcome { outcome };
        self.unauthenticated.get_or_create(&outcome).inc();
    }
}
