//! The metrics of namespace-gc.

use super::Recorded;
use crate::telemetry::{
    Metrics,
    labels::{Count, Durations, Level, Outcome, Reason, label_sets},
};
use k8s_openapi::jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use std::time::Duration;

/// The outcomes of periodic collections.
const RUNS: [&str; 7] = [
    "Done",
    "Incomplete",
    "BackendFailed",
    "KubernetesFailed",
    "KubernetesEmpty",
    "SeenFailed",
    "Panicked",
];

/// The metrics of requests to the storage backend, of removals, of collections and of the record
/// of namespaces.
#[derive(Debug)]
pub struct GcMetrics {
    calls: Count<Call>,
    durations: Durations<Operation>,
    waiting: Level<Reason>,
    waiting_oldest: Level<Reason>,
    runs: Count<Outcome>,
    last_success: Gauge,
    verdicts: Level<Verdict>,
    skipped: Gauge,
    seen: Level<State>,
}

impl GcMetrics {
    /// Registers the metrics. The series of the collections start at zero, so that `rate` includes
    /// the first failure.
    pub fn new(metrics: &Metrics) -> Self {
        let registered = Self::register(metrics);
        for outcome in RUNS {
            drop(registered.runs.get_or_create(&Outcome { outcome }));
        }
        registered
    }

    fn register(metrics: &Metrics) -> Self {
        metrics.register(|own| Self {
            calls: own.add(
                "backend_requests",
                "Requests to the storage backend by operation and outcome",
            ),
            durations: own.add_durations(
                "backend_request_duration",
                "Duration of requests to the storage backend, logins included",
            ),
            waiting: own.add(
                "namespaces_waiting",
                "Namespaces deleted from Kubernetes that could not be removed from the storage backend yet, by reason",
            ),
            waiting_oldest: own.add_seconds(
                "namespaces_waiting_oldest_timestamp",
                "Unix time of the first failed removal of the namespace that waits for longest, by reason; 0 if none waits",
            ),
            runs: own.add("gc_runs", "Collections (searches for namespaces that only the storage \
                backend still has) by outcome"),
            last_success: own.add_seconds(
                "gc_last_success_timestamp",
                "Unix time at which a collection of this replica last completed; 0 if none has",
            ),
            verdicts: own.add(
                "gc_namespaces",
                "Namespaces of the storage backend by the verdict of the last completed collection, \
                 on the leader",
            ),
            skipped: own.add(
                "gc_skipped_entries",
                "Entries of the storage backend that were not namespaces in the last completed \
                 collection, on the leader",
            ),
            seen: own.add(
                "seen_namespaces",
                "Names of namespaces that this cluster once had, on the leader, by whether the \
                 ConfigMap volume-warden-seen-namespaces had room for them. With --gc-scope=seen, \
                 no collection deletes a namespace that is not recorded",
            ),
        })
    }

    /// Counts a request to the storage backend by its outcome, and records how long it took.
    pub fn called(&self, operation: &'static str, outcome: &'static str, took: Duration) {
        self.calls.get_or_create(&Call { operation, outcome }).inc();
        self.durations
            .get_or_create(&Operation { operation })
            .observe(took.as_secs_f64());
    }

    /// Sets the number of namespaces that wait for their removal for this reason, and since when
    /// the first of them waits.
    pub fn waiting(&self, reason: &'static str, count: i64, oldest: Option<Timestamp>) {
        let reason = Reason { reason };
        self.waiting.get_or_create(&reason).set(count);
        let oldest = oldest.map_or(0, |time| time.as_second());
        self.waiting_oldest.get_or_create(&reason).set(oldest);
    }

    /// Counts a collection that ended, by its outcome.
    pub fn ran(&self, outcome: &'static str) {
        self.runs.get_or_create(&Outcome { outcome }).inc();
    }

    /// Sets the time of the last completed collection.
    pub fn succeeded(&self, seconds_since_1970: i64) {
        self.last_success.set(seconds_since_1970);
    }

    /// Sets for how many namespaces the last collection reached this verdict.
    pub fn verdict(&self, verdict: &'static str, count: i64) {
        self.verdicts.get_or_create(&Verdict { verdict }).set(count);
    }

    /// Sets the number of entries that were not namespaces in the last collection.
    pub fn skipped(&self, count: i64) {
        self.skipped.set(count);
    }

    /// Removes the results of the last collection, because this replica no longer leads: those of
    /// the next leader are newer.
    pub fn forget_collection(&self) {
        self.verdicts.clear();
        self.skipped.set(0);
    }

    /// Removes the size of the record, because this replica no longer leads.
    pub fn forget_record(&self) {
        self.seen.clear();
    }

    /// Sets the number of namespace names in the ConfigMap, and of new names that did not fit at
    /// the last write.
    pub fn recorded(&self, recorded: Recorded) {
        for (state, count) in [
            ("Recorded", recorded.names),
            ("Unrecorded", recorded.left_out),
        ] {
            let count = count.try_into().unwrap_or(i64::MAX);
            self.seen.get_or_create(&State { state }).set(count);
        }
    }
}

label_sets! {
    Call(operation, outcome);
    Operation(operation);
    Verdict(verdict);
    State(state);
}
