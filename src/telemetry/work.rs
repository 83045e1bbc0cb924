//! Metrics of the reconcilers, the leader election and readiness.

use super::{
    Registrar,
    labels::{Acted, Component, Count, Durations, Level, Reconciled},
};
use prometheus_client::metrics::gauge::Gauge;
use std::time::Duration;

/// The outcome of an action that the API server refused or did not answer.
pub const FAILED: &str = "Failed";

#[derive(Debug)]
pub struct WorkMetrics {
    actions: Count<Acted>,
    failed_actions: Count<Component>,
    reconciles: Durations<Reconciled>,
    queue_depth: Level<Component>,
    leader: Gauge,
    ready: Gauge,
}

impl WorkMetrics {
    pub(super) fn new(own: &mut Registrar<'_>) -> Self {
        Self {
            actions: own.add(
                "actions",
                "Actions (creations, changes and deletions of objects), carried out or not, by \
                 component, action, reason and outcome",
            ),
            failed_actions: own.add(
                "failed_actions",
                "Actions that the API server refused or did not answer, by component. The series \
                 exist from the start of the process",
            ),
            reconciles: own.add_durations(
                "reconcile_duration",
                "Time spent on one reconcile of an object, waiting for live reads and writes \
                 included",
            ),
            queue_depth: own.add(
                "queue_depth",
                "Objects that are queued, being reconciled, or waiting to be reconciled again \
                 after a failure",
            ),
            leader: own.add(
                "leader",
                "1 while this replica is the leader, which runs the reconcilers",
            ),
            ready: own.add(
                "ready",
                "1 while this replica is ready for traffic, as /readyz reports",
            ),
        }
    }

    /// Creates the series of a component when the process starts, so that `rate` includes the first
    /// failure. Those of its actions are not among them, because few of their combinations occur.
    pub fn begun(&self, component: &'static str) {
        self.queue_depth(component, 0);
        drop(self.failed_actions.get_or_create(&Component { component }));
        for outcome in ["Settled", "Retry"] {
            let reconciled = Reconciled { component, outcome };
            drop(self.reconciles.get_or_create(&reconciled));
        }
    }

    /// Counts an action, whether or not it was carried out.
    pub fn acted(
        &self,
        component: &'static str,
        action: &'static str,
        reason: &'static str,
        outcome: &'static str,
    ) {
        let acted = Acted {
            component,
            action,
            reason,
            outcome,
        };
        self.actions.get_or_create(&acted).inc();
        if outcome == FAILED {
            let component = Component { component };
            self.failed_actions.get_or_create(&component).inc();
        }
    }

    /// Records the duration of a reconcile, and whether it succeeded (`Settled`) or is retried.
    pub fn reconciled(&self, component: &'static str, took: Duration, settled: bool) {
        let outcome = if settled { "Settled" } else { "Retry" };
        let reconciled = Reconciled { component, outcome };
        let reconciles = self.reconciles.get_or_create(&reconciled);
        reconciles.observe(took.as_secs_f64());
    }

    /// Sets the number of objects that are queued, being reconciled, or waiting to be reconciled
    /// again after a failure. Objects that wait for a date are not counted.
    pub fn queue_depth(&self, component: &'static str, depth: usize) {
        let queue = self.queue_depth.get_or_create(&Component { component });
        queue.set(depth.try_into().unwrap_or(i64::MAX));
    }

    /// Sets the gauge that is 1 while this replica leads and reconciles.
    pub fn leading(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Sets the gauge that is 1 while this replica is ready for traffic.
    pub fn ready(&self, ready: bool) {
        self.ready.set(ready.into());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;

    /// So that `rate` includes the first failure, whichever action it is.
    #[test]
    fn failed_actions_are_counted_from_zero() {
        let metrics = Metrics::new();
        metrics.work.begun("c");
        metrics.work.acted("c", "Delete", "Orphaned", "Done");
        let counted = |count: u64| {
            let line = format!("volume_warden_failed_actions_total{{component=\"c\"}} {count}\n");
            metrics.text().contains(&line)
        };
        assert!(counted(0), "{}", metrics.text());
        metrics.work.acted("c", "Delete", "Orphaned", "Failed");
        assert!(counted(1), "{}", metrics.text());
    }
}
