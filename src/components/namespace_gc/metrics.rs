//! Metrics: requests to the storage backend, waiting namespaces, and collections.

use crate::telemetry::{
    Metrics,
    labels::{Buckets, Outcome, Reason},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use std::time::Duration;

/// The metrics of namespace-gc.
#[derive(Debug)]
pub struct GcMetrics {
    calls: Family<Call, Counter>,
    durations: Family<Operation, Histogram, Buckets>,
    waiting: Family<Reason, Gauge>,
    waiting_oldest: Family<Reason, Gauge>,
    runs: Family<Outcome, Counter>,
    last_success: Gauge,
    verdicts: Family<Verdict, Gauge>,
    skipped: Gauge,
    seen: Family<State, Gauge>,
}

impl Default for GcMetrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(Buckets),
            waiting: Family::default(),
            waiting_oldest: Family::default(),
            runs: Family::default(),
            last_success: Gauge::default(),
            verdicts: Family::default(),
            skipped: Gauge::default(),
            seen: Family::default(),
        }
    }
}

impl GcMetrics {
    /// Registers the metrics, all at zero.
    pub fn new(metrics: &Metrics) -> Self {
        let own = Self::default();
        metrics.register(|registry| own.register(registry));
        own
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "backend_requests",
            "Requests to the storage backend by operation and outcome",
            self.calls.clone(),
        );
        registry.register_with_unit(
            "backend_request_duration",
            "Duration of requests to the storage backend, logins included",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "namespaces_waiting",
            "Namespaces deleted from Kubernetes that could not be removed from the storage backend yet, by reason",
            self.waiting.clone(),
        );
        registry.register_with_unit(
            "namespaces_waiting_oldest",
            "Longest wait of the waiting namespaces, by reason",
            Unit::Seconds,
            self.waiting_oldest.clone(),
        );
        self.register_runs(registry);
    }

    fn register_runs(&self, registry: &mut Registry) {
        registry.register(
            "gc_runs",
            "Collections of namespaces by outcome",
            self.runs.clone(),
        );
        registry.register_with_unit(
            "gc_last_success_timestamp",
            "Unix time at which a collection last completed",
            Unit::Seconds,
            self.last_success.clone(),
        );
        registry.register(
            "gc_namespaces",
            "Namespaces of the storage backend by the verdict of the last collection",
            self.verdicts.clone(),
        );
        registry.register(
            "gc_skipped_entries",
            "Entries of the storage backend that were not namespaces in the last collection",
            self.skipped.clone(),
        );
        registry.register(
            "seen_namespaces",
            "Names of namespaces that this cluster once had, by whether the last write recorded them",
            self.seen.clone(),
        );
    }

    /// Counts a request to the backend.
    pub fn called(&self, operation: &'static str, outcome: &'static str, took: Duration) {
        self.calls.get_or_create(&Call { operation, outcome }).inc();
        self.durations
            .get_or_create(&Operation { operation })
            .observe(took.as_secs_f64());
    }

    /// Sets the number of waiting namespaces for this reason, and the longest wait.
    pub fn waiting(&self, reason: &'static str, count: i64, oldest: Duration) {
        let reason = Reason { reason };
        self.waiting.get_or_create(&reason).set(count);
        let oldest = oldest.as_secs().try_into().unwrap_or(i64::MAX);
        self.waiting_oldest.get_or_create(&reason).set(oldest);
    }

    /// Counts a collection.
    pub fn ran(&self, outcome: &'static str) {
        self.runs.get_or_create(&Outcome { outcome }).inc();
    }

    /// Sets the time of the last completed collection.
    pub fn succeeded(&self, seconds_since_1970: i64) {
        self.last_success.set(seconds_since_1970);
    }

    /// Sets how often the last collection reached this verdict.
    pub fn verdict(&self, verdict: &'static str, count: i64) {
        self.verdicts.get_or_create(&Verdict { verdict }).set(count);
    }

    /// Sets the number of entries that were not namespaces in the last collection.
    pub fn skipped(&self, count: i64) {
        self.skipped.set(count);
    }

    /// Sets the number of recorded names, and of names that did not fit.
    pub fn seen(&self, recorded: i64, unrecorded: i64) {
        for (state, count) in [("Recorded", recorded), ("Unrecorded", unrecorded)] {
            self.seen.get_or_create(&State { state }).set(count);
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Call {
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Verdict {
    verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct State {
    state: &'static str,
}
