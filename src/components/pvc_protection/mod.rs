//! `pvc-protection`: a claim is not deleted while a pod uses it.
//!
//! **Rule.** A claim carries the finalizer `kubernetes.io/pvc-protection` from its creation. When
//! the claim is being deleted and no pod uses it, Volume Warden removes the finalizer. Only a pod
//! that has a node uses claims, in any phase of the pod: the claims that it names, and those that
//! were created for its ephemeral volumes and that it owns. The latter do not count once the pod
//! is shut down: it is being deleted with a grace period of zero.
//!
//! A cached pod can prove that the claim is in use. Proof that no pod uses it requires a LIST of
//! the namespace's pods that began after the watch showed the deletion of the claim. The
//! `resourceVersion` of the claim proves nothing, because a pod is created and scheduled without a
//! write of the claim.
//!
//! **Source.** `pkg/controller/volume/pvcprotection/pvc_protection_controller.go` and
//! `plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go` of Kubernetes 1.34.
//! Main differences: finished pods can be configured not to hold claims
//! ([`crate::causes::FinishedPods`]); a shut-down pod enqueues its claims even while its container
//! statuses still say running; a live LIST never serves a claim whose deletion was seen after the
//! LIST began; webhooks refuse to create a pod that names its node, and to bind a pod to a node,
//! while a claim of the pod is being deleted.

mod assemble;
mod last_seen;
mod metrics;
#[cfg(test)]
mod metrics_tests;
mod notices;
#[cfg(test)]
mod notices_tests;
mod options;
mod reconcile;
mod rule;
#[cfg(test)]
mod tests;
mod triggers;
pub mod unused;
mod warn;
#[cfg(test)]
mod warn_tests;
mod webhooks;
#[cfg(test)]
mod webhooks_tests;

pub use assemble::PvcProtection;
#[cfg(feature = "simulation")]
pub use metrics::register as register_metrics;
pub use notices::HeldClaimReporter;
pub use reconcile::PvcProtectionReconciler;
pub use warn::deletions_hook;
pub use webhooks::{hooks, protect};

/// Name of the component pvc-protection in flags, logs and metrics.
pub const NAME: &str = "pvc-protection";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// The claim has been Terminating for ten seconds or more. The Event says what holds it,
        /// and the next step. Another Event follows if the cause changes.
        CLAIM_HELD: Normal "claim" = "ClaimHeld";
        /// The claim is not being deleted and lacked its finalizer.
        FINALIZER_MISSING = "FinalizerMissing";
        /// No pod uses the claim. An action for this reason rests on a live read.
        NOT_IN_USE = "NotInUse";
    }
}
