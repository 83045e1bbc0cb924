//! `pvc-expiry`: claims that no pod has used for a long time are moved to the trash.
//!
//! **Rule.** A claim expires when its condition `Unused` has been True for as long as the annotation
//! `volume-warden.dev/expire-unused` of the claim or its StorageClass says, and Volume Warden has
//! watched all of that time without a break. The claim is announced to expire seven days before. It
//! is then deleted, and pvc-trash keeps its data.
//!
//! A claim does not expire while it has an owner, a pod names it, or a workload or another
//! configured object names it. Nor does it expire if its volume is not recorded for the trash: the
//! data must be restorable.
//!
//! Everything that the rule reads is read live twice, a minute apart, before the deletion. A pod
//! that is created at the same moment is safe: a claim that a pod uses stays until the pod ends.

mod assemble;
mod caches;
mod confirm;
mod metrics;
mod notices;
mod options;
mod reconcile;
mod referrers;
mod reports;
mod rule;

#[cfg(test)]
mod tests;
mod triggers;

pub use assemble::PvcExpiry;
pub use caches::Caches;
pub use metrics::register as register_metrics;

/// Name of the component pvc-expiry in flags, logs and metrics.
pub const NAME: &str = "pvc-expiry";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// No pod has used the claim for a long time; the message says when it is deleted, and how to
        /// keep it.
        EXPIRING: Warning "claim" = "ExpiringUnused";
        /// An announced claim is not deleted.
        EXPIRY_CANCELLED: Normal "claim" = "ExpiryCancelled";
        /// The claim was deleted because no pod used it; the message says how to restore it.
        EXPIRED: Normal "claim" = "ExpiredUnused";
        /// Nothing expires: the annotation cannot be read, or the data could not be restored.
        CANNOT_EXPIRE: Warning "claim, StorageClass" = "ErrExpiry";
        /// The API server refused to write or remove the announcement of `pvc-expiry`.
        FAILED_ANNOUNCE: Warning "claim" = "FailedAnnounceExpiry";
    }
}
