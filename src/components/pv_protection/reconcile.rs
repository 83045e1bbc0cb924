//! The reconciler of pv-protection: which changes enqueue a volume, and how a volume is processed.

use super::{
    NAME, metrics,
    rule::{Decision, decide},
};
use crate::{
    cluster::{Apply, Feed, Reconcile, Reconciled, Requeue, Target, WorkQueue},
    objects::{ObjectName, Volume, finalizers::FinalizerState},
    telemetry::Metrics,
};
use std::sync::Arc;

/// Adds and removes the protection finalizer of volumes.
pub struct PvProtectionReconciler {
    /// Watch of all volumes.
    pub volumes: Arc<Feed<Volume>>,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
}

impl PvProtectionReconciler {
    /// Enqueues a volume on every change after which the finalizer may have to be added or
    /// removed. A volume that is deleted while it is Bound is enqueued again when the binder
    /// changes its phase.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        let queue = queue.clone();
        self.volumes.listen(move |change| {
            match change.new.map(|volume| volume.finalizer_state()) {
                Some(FinalizerState::NeedsFinalizer) => queue.add_urgent(change.name.clone()),
                Some(FinalizerState::DeletionCandidate) => queue.add(change.name.clone()),
                Some(FinalizerState::UpToDate) | None => {}
            }
        });
    }

    /// Registers the metrics of volumes that are being deleted but still exist.
    pub fn register_metrics(&self, metrics: &Metrics) {
        metrics::register(metrics, self.volumes.clone());
    }
}

impl Reconcile for PvProtectionReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        let volumes = self.volumes.read();
        volumes.names_where(|volume| volume.finalizer_state() != FinalizerState::UpToDate)
    }

    fn is_urgent(&self, name: &ObjectName) -> bool {
        let volume = self.volumes.read().get(name);
        volume.is_some_and(|volume| volume.finalizer_state() == FinalizerState::NeedsFinalizer)
    }

    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        let Some(volume) = self.volumes.read().get_fresh(name) else {
            return Ok(Requeue::OnEvent);
        };
        let (action, reason) = match decide(&volume) {
            Decision::Act(action, reason) => (action, reason),
            Decision::Leave(reason) => {
                tracing::debug!(component = NAME, object = %name, reason, "no action");
                return Ok(Requeue::OnEvent);
            }
        };
        let target = Target {
            finalizers: &volume.finalizers,
            ..Target::of(name, &volume)
        };
        let applied = self.apply.perform(NAME, &target, action, reason).await;
        if applied.written() {
            self.volumes.mark_stale(name, &volume);
        }
        applied.into_reconciled()
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
