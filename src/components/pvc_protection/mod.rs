//! `pvc-protection`: a claim is not deleted while a pod uses it.
//!
//! **Rule.** A claim carries the finalizer `kubernetes.io/pvc-protection` from its creation. Once
//! the claim is being deleted, the finalizer is removed when no pod uses the claim. A pod uses a
//! claim when the pod has a node and names the claim, in any phase; or when the claim was created
//! for one of the pod's ephemeral volumes, is owned by the pod, and the pod is not shut down.
//!
//! A cached pod can prove that the claim is in use. Proof that no pod uses it requires a LIST of
//! the namespace's pods that began after the deletion was seen: a write of the claim gives no lock
//! against a pod that is being created or scheduled.
//!
//! **Source.** `pkg/controller/volume/pvcprotection/pvc_protection_controller.go` and
//! `plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go` of Kubernetes 1.34.
//! Differences: finished pods can be configured not to hold claims
//! ([`crate::causes::FinishedPods`]); a shut-down pod enqueues its claims even while its container
//! statuses still say running; a live LIST never serves a claim whose deletion was seen after the
//! LIST began; a pod that names its node is refused while its claim is being deleted.

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
pub mod unused;
mod warn;
#[cfg(test)]
mod warn_tests;
mod webhooks;
#[cfg(test)]
mod webhooks_tests;

pub use assemble::PvcProtection;
pub use metrics::register as register_metrics;
pub use notices::HeldClaimReporter;
pub use reconcile::PvcProtectionReconciler;
pub use rule::{Cached, Step, View, decide, decide_live};
pub use warn::deletions_hook;
pub use webhooks::{hooks, protect};

/// Name of the component pvc-protection in flags, logs and metrics.
pub const NAME: &str = "pvc-protection";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// The claim has been Terminating for ten seconds or more: what holds it, and the next step.
        /// Each cause is a separate Event.
        CLAIM_HELD: Normal "claim" = "ClaimHeld";
        /// The claim is not being deleted and lacked its finalizer.
        FINALIZER_MISSING = "FinalizerMissing";
        /// A pod uses the claim.
        IN_USE = "InUse";
        /// No pod uses the claim. An action for this reason rests on a live read.
        NOT_IN_USE = "NotInUse";
    }
}
