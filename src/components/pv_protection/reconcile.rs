//! The reconciler: what wakes a volume, and what happens then.

use super::{
    NAME, metrics,
    rule::{Decision, decide},
};
use crate::{
    cluster::{Apply, Feed, Reconcile, Retry, Target, WorkQueue},
    objects::{Kind, ObjectName, Volume, finalizers::FinalizerState},
    telemetry::Metrics,
};
use std::sync::Arc;

/// What the reconciler works with.
pub struct PvProtectionReconciler {
    /// All volumes, as last told.
    pub volumes: Arc<Feed<Volume>>,
    /// The writer.
    pub apply: Arc<Apply>,
}

impl PvProtectionReconciler {
    /// Puts a volume in line whenever it may need work. A Bound one is woken by the binder changing its phase.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        let line = queue.clone();
        self.volumes.listen(move |change| {
            match change.new.map(|volume| volume.finalizer_state()) {
                Some(FinalizerState::NeedsFinalizer) => line.add_urgent(change.name.clone()),
                Some(FinalizerState::DeletionCandidate) => line.add(change.name.clone()),
                Some(FinalizerState::Settled) | None => {}
            }
        });
    }

    /// Registers the metrics of this component.
    pub fn register_metrics(&self, metrics: &Metrics) {
        metrics::register(metrics, self.volumes.clone());
    }
}

impl Reconcile for PvProtectionReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        let volumes = self.volumes.read();
        volumes.names_where(|volume| volume.finalizer_state() != FinalizerState::Settled)
    }

    async fn reconcile(&self, name: &ObjectName) -> Result<(), Retry> {
        let Some(volume) = self.volumes.read().get_fresh(name) else {
            return Ok(());
        };
        let (action, reason) = match decide(&volume) {
            Decision::Act(action, reason) => (action, reason),
            Decision::Leave(reason) => {
                tracing::debug!(component = NAME, object = %name, reason, "left");
                return Ok(());
            }
        };
        let target = Target {
            kind: Kind::PersistentVolume,
            name,
            uid: &volume.uid,
            resource_version: Some(&volume.resource_version),
            finalizers: &volume.finalizers,
        };
        let applied = self.apply.perform(NAME, &target, action, reason).await;
        if applied.written() {
            self.volumes.mark_stale(name, &volume);
        }
        applied.settled()
    }
}
