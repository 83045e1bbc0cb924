//! `pv-protection`: a volume is not deleted while it is bound to a claim.
//!
//! **Rule.** A volume carries the finalizer `kubernetes.io/pv-protection` from its creation. When
//! the volume is being deleted and its `status.phase` is not Bound, Volume Warden removes the
//! finalizer. The decision reads only the volume, and the binder writes the phase on the volume.
//! Therefore the removal needs no live read: its patch tests the `resourceVersion` of the volume.
//!
//! **Source.** `pkg/controller/volume/pvprotection/pv_protection_controller.go` of Kubernetes 1.34.
//! Main difference: a webhook refuses to bind a volume that is being deleted to a new claim, as the
//! PV-protection proposal requires. Kubernetes alone still completes such a binding if the claim
//! already names the volume and the `claimRef` of the volume names the claim.

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
#[cfg(feature = "simulation")]
pub use metrics::register as register_metrics;
pub use reconcile::PvProtectionReconciler;
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
