//! `pvc-retention`: claims of a StatefulSet are deleted with the set, or with a pod that was
//! scaled down, where the set's policy says so.
//!
//! **Rule.** `spec.persistentVolumeClaimRetentionPolicy` of a set decides about its claims,
//! `<template>-<set>-<ordinal>`. A claim that is to be deleted has an owner reference, and the
//! garbage collector deletes the claim after its owner. The owner is the set where `whenDeleted`
//! is Delete; it is the pod instead while the pod is condemned (its ordinal is out of range) and
//! `whenScaled` is Delete. References to other objects stay unchanged. A claim that is being
//! deleted, or has a reference to an earlier set or pod of the same name, is left unchanged. A
//! claim that another object controls gets no reference to the set or pod, and keeps none.
//!
//! A claim whose ordinal is in range while `whenScaled` is Delete carries a marker with the set's
//! uid. If its ordinal is out of range and its pod is already deleted, the pod cannot become the
//! owner. Then Volume Warden itself deletes the claim, but only if it has that marker and no owner
//! except the set.
//!
//! Writes that keep claims have a queue key of their own: if a set is scaled up again, they do not
//! wait for the writes of its scale-down.
//!
//! Before any write, the reconciler reads the set live. Before it makes a pod the owner of a claim
//! or deletes a claim, it also reads the pods live. If the name of a claim can be split into
//! template, set and ordinal in several ways, the reconciler and the webhook read live every set
//! that the name may mean before they write.
//!
//! **Source.** KEP-1847 and `pkg/controller/statefulset/stateful_set_utils.go` of Kubernetes 1.34.
//! Differences: the owner is set when the claim is created, so that a set deleted early leaks no
//! claim; claims of ordinals without a pod follow the policy too; when an ordinal is in range
//! again, the reference to its old pod is removed, for both pod management policies; a claim with
//! another controller is always reported; a reference with a wrong apiVersion is repaired once
//! instead of being written forever.

mod assemble;
mod caches;
mod drain;
mod fate;
mod judged;
mod marks;
mod metrics;
mod notices;
mod other_sets;
mod ownership;
mod patch;
mod reconcile;
mod resolve_set;
mod rule;
mod subject;
mod triggers;
mod webhooks;

#[cfg(test)]
mod tests;

pub use assemble::PvcRetention;
pub use caches::Caches;
pub use drain::owner_cleanups;
pub use marks::strip_marker_hook;
#[cfg(feature = "simulation")]
pub use metrics::register as register_metrics;
pub use patch::changes;
pub use reconcile::PvcRetentionReconciler;
pub use rule::{MarkerChange, Update};
pub use webhooks::hook;

/// Timeout of the live read of one StatefulSet.
const READ_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Name of the component pvc-retention in flags, logs and metrics.
pub const NAME: &str = "pvc-retention";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// Another controller owns a claim of the StatefulSet, so the retention policy is not
        /// applied to the claim.
        CONFLICTING_CONTROLLER: Warning "StatefulSet" = "ConflictingController";
        /// For ten seconds, a pod of the StatefulSet could not be created before the deletion of
        /// its claim is complete. The StatefulSet controller then recreates the claim and creates
        /// the pod.
        POD_BLOCKED_BY_CLAIM: Warning "StatefulSet" = "PodBlockedByClaim";
        /// A claim out of range, without a pod, is kept although `whenScaled` is Delete: it has no
        /// marker that `whenScaled` was Delete while it was in range, or another object owns it.
        SCALED_DOWN_UNMARKED: Normal "StatefulSet" = "ScaledDownUnmarked";
        /// The claim is kept when the StatefulSet or the pod is deleted.
        RETAINED = "Retained";
        /// The garbage collector deletes the claim after the StatefulSet.
        DELETED_WITH_SET = "DeletedWithSet";
        /// The claim is deleted after its pod, which is scaled down: by the garbage collector, or
        /// by Volume Warden if the pod was deleted before it owned the claim.
        DELETED_WITH_POD = "DeletedWithPod";
        /// The claim is owned by an earlier StatefulSet or pod of the same name, so it is left to
        /// the garbage collector, which deletes it unless another owner exists.
        STALE_OWNER = "StaleOwner";
        /// The claim is being deleted, and no pod waits for it.
        TERMINATING = "Terminating";
        /// Volume Warden deleted the claim: its pod was scaled down and deleted.
        SCALED_DOWN = "ScaledDown";
    }
}
