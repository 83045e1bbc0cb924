//! The condition `Unused` of claims: since when no pod uses a claim.
//!
//! **Rule.** A bound claim that is not being deleted has the condition `Unused`. It is False while
//! a pod names the claim, even one without a node. A pod does not count if it has finished, or if
//! it is being deleted and none of its containers runs. The condition is True if no such pod
//! exists. `lastTransitionTime` is the time of the last change of the status.
//!
//! A cached pod proves that the claim is in use. Before Volume Warden writes True, a live LIST of
//! the namespace's pods must show that no pod uses the claim.
//!
//! kube-controller-manager writes the same condition since Kubernetes 1.37, unless its controller
//! or the feature gate is off. By default, Volume Warden writes the condition only where
//! kube-controller-manager does not; see [`in_tree`].
//!
//! **Source.** `updateUnusedCondition` and `podUsesPVCForUnusedSince` in
//! `pkg/controller/volume/pvcprotection/pvc_protection_controller.go` of Kubernetes 1.37.

mod in_tree;
pub mod metrics;
mod options;
mod reconcile;
mod rule;
#[cfg(test)]
mod tests;

pub use in_tree::InTreeWriter;
pub use options::UnusedCondition;
pub use reconcile::UnusedReconciler;
pub use rule::uses;

/// Name of the reconciler in logs and metrics.
pub const NAME: &str = "pvc-protection-unused";

/// Reasons of actions: log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// No pod uses the claim: the condition `Unused` is True.
        NO_PODS_USING_PVC = "NoPodsUsingPVC";
        /// A pod uses the claim: the condition `Unused` is False.
        POD_USING_PVC = "PodUsingPVC";
        /// Volume Warden removes the condition that it wrote, because `--unused-condition` is
        /// `off` or the namespace has opted out.
        CONDITION_OFF = "UnusedConditionOff";
    }
}
