//! `pvc-protection`: a claim that a pod uses is not deleted under it.
//!
//! **Rule.** A claim carries the finalizer `kubernetes.io/pvc-protection` from its creation. Once the claim is being deleted, the
//! finalizer is removed when no pod uses it. A pod uses a claim when it has a node and names the claim, in whatever phase it is;
//! or when the claim was made for one of its ephemeral volumes, is owned by it, and the pod is not shut down.
//!
//! A cached pod can prove use. Disuse takes a LIST of the namespace's pods that began after the deletion was seen: writing the
//! claim gives no lock against a pod that is being created or scheduled.
//!
//! **Source.** `pkg/controller/volume/pvcprotection/pvc_protection_controller.go` and
//! `plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go` of Kubernetes 1.34. What differs: finished pods may
//! be told to let go ([`crate::causes::FinishedPods`]), a shut-down pod wakes its claims even while its container statuses still say running,
//! a live list never serves a claim whose deletion was seen after the list began, and a pod made for a node by hand is refused
//! while its claim is being deleted.

mod assemble;
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

/// The component's name, in the CLI and everywhere.
pub const NAME: &str = "pvc-protection";

/// Why something was done or left: event reason, log field and metric label alike.
pub mod reasons {
    /// A living claim lacked its finalizer.
    pub const FINALIZER_MISSING: &str = "FinalizerMissing";
    /// A claim that is being deleted is held by somebody.
    pub const CLAIM_HELD: &str = "ClaimHeld";
    /// A pod uses the claim.
    pub const IN_USE: &str = "InUse";
    /// No pod uses the claim: where it is acted on, by a live read.
    pub const NOT_IN_USE: &str = "NotInUse";
}
