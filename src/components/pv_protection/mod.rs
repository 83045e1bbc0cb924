//! `pv-protection`: a volume that is bound to a claim is not deleted under it.
//!
//! **Rule.** A volume carries the finalizer `kubernetes.io/pv-protection` from its creation. Once the volume is being deleted, the
//! finalizer is removed when `status.phase` is not Bound. The decision rests on the volume alone, so a test of its
//! `resourceVersion` is all the confirmation it takes: the binder writes the phase on the same object.
//!
//! **Source.** `pkg/controller/volume/pvprotection/pv_protection_controller.go` of Kubernetes 1.34. What differs: a volume that is
//! being deleted is not bound anew, as the PV-protection proposal asks; Kubernetes still completes a binding that was prepared on
//! both sides.

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

/// The component's name, in the CLI and everywhere.
pub const NAME: &str = "pv-protection";

/// Why something was done or left: event reason, log field and metric label alike.
pub mod reasons {
    /// A living volume lacked its finalizer.
    pub const FINALIZER_MISSING: &str = "FinalizerMissing";
    /// The volume is Bound.
    pub const BOUND: &str = "Bound";
    /// The volume is not Bound.
    pub const NOT_BOUND: &str = "NotBound";
}
