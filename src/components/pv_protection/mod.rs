//! `pv-protection`: a volume is not deleted while it is bound to a claim.
//!
//! **Rule.** A volume carries the finalizer `kubernetes.io/pv-protection` from its creation. Once
//! the volume is being deleted, the finalizer is removed when `status.phase` is not Bound. The
//! decision rests on the volume alone, and the binder writes the phase on the same object.
//! Therefore a test of its `resourceVersion` is sufficient confirmation.
//!
//! **Source.** `pkg/controller/volume/pvprotection/pv_protection_controller.go` of Kubernetes 1.34.
//! Difference: a volume that is being deleted is not bound to a new claim, as the PV-protection
//! proposal requires; Kubernetes still completes a binding that was prepared on both sides.

mod assemble;
mod metrics;
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

pub use assemble::PvProtection;
pub use metrics::register as register_metrics;
pub use reconcile::PvProtectionReconciler;
pub use rule::{Decision, decide};
pub use warn::deletions_hook;
pub use webhooks::{hooks, protect};

/// Name of the component pv-protection in flags, logs and metrics.
pub const NAME: &str = "pv-protection";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// The volume is not being deleted and lacked its finalizer.
        FINALIZER_MISSING = "FinalizerMissing";
        /// A claim is bound to the volume.
        BOUND = "Bound";
        /// No claim is bound to the volume.
        NOT_BOUND = "NotBound";
    }
}
