//! Metrics of the reconcilers.

use super::labels::{Acted, Buckets, Component, Count, Durations, Level, Reconciled};
use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use std::time::Duration;

#[derive(Debug)]
pub struct WorkMetrics {
    actions: Count<Acted>,
    reconciles: Durations<Reconciled>,
    queue_depth: Level<Component>,
    leader: Gauge,
    ready: Gauge,
}

impl Default for WorkMetrics {
    fn default() -> Self {
        Self {
            actions: Family::default(),
            reconciles: Family::new_with_constructor(Buckets),
            queue_depth: Family::default(),
            leader: Gauge::default(),
            ready: Gauge::default(),
        }
    }
}

impl WorkMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "actions",
            "Actions by component, action, reason and outcome",
            self.actions.clone(),
        );
        let help = "Time spent on one object, waiting for live reads and writes included";
        let reconciles = self.reconciles.clone();
        registry.register_with_unit("reconcile_duration", help, Unit::Seconds, reconciles);
        registry.register(
            "queue_depth",
            "Objects that are queued or being reconciled",
            self.queue_depth.clone(),
        );
        registry.register(
            "leader",
            "1 while this replica reconciles",
            self.leader.clone(),
        );
        registry.register(
            "ready",
            "1 while /readyz says that this replica is",
            self.ready.clone(),
        );
    }
}

impl WorkMetrics {
    /// A component's reconciler begins. Its series are there from now on, so that a rate knows of
    /// the first failure.
    pub fn reconciler_begun(&self, component: &'static str) {
        self.queue_depth(component, 0);
        for outcome in ["Settled", "Retry"] {
            let reconciled = Reconciled { component, outcome };
            drop(self.reconciles.get_or_create(&reconciled));
        }
    }

    /// An action was taken or not.
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
    }

    /// An object was looked at.
    pub fn reconciled(&self, component: &'static str, took: Duration, settled: bool) {
        let outcome = if settled { "Settled" } else { "Retry" };
        let reconciled = Reconciled { component, outcome };
        let reconciles = self.reconciles.get_or_create(&reconciled);
        reconciles.observe(took.as_secs_f64());
    }

    /// So many objects are waiting or being looked at.
    pub fn queue_depth(&self, component: &'static str, depth: usize) {
        let queue = self.queue_depth.get_or_create(&Component { component });
        queue.set(depth.try_into().unwrap_or(i64::MAX));
    }

    /// Whether this replica reconciles.
    pub fn leading(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Whether this replica may be sent traffic.
    pub fn ready(&self, ready: bool) {
        self.ready.set(ready.into());
    }
}
