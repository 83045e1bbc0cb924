//! `pvc-expiry`: claims that no pod has used for a long time are moved to the trash.
//!
//! **Rule.** A claim expires when its condition `Unused` has been True for as long as the
//! annotation `volume-warden.dev/expire-unused` of the claim or its StorageClass says, and Volume
//! Warden has watched all of that time without a break. At least seven days before it deletes the
//! claim, Volume Warden announces that by the annotation `volume-warden.dev/expires-at` and an
//! Event. After the deletion, pvc-trash keeps the data.
//!
//! A claim does not expire while it has an owner reference, or while a pod, a workload or a custom
//! resource of `--expiry-references` names it. Nor does it expire if pvc-trash has written no
//! record on its volume: without the record, the data could not be restored.
//!
//! Everything that the rule reads is read live twice, a minute apart, before the deletion. A pod
//! that is created during the deletion loses no data: if it runs already, the finalizer
//! `kubernetes.io/pvc-protection` keeps the claim until the pod ends; if not, it waits until a
//! user restores the claim.

mod assemble;
mod caches;
mod confirm;
mod expire;
mod first_evaluations;
mod last_use;
mod metrics;
mod named;
mod notices;
mod options;
mod reconcile;
mod referrers;
mod reports;
mod requeue;
mod restorable;
mod rule;

#[cfg(test)]
mod tests;
mod triggers;

pub use assemble::PvcExpiry;
#[cfg(feature = "simulation")]
pub use caches::Caches;
#[cfg(feature = "simulation")]
pub use metrics::register as register_metrics;

/// Name of the component pvc-expiry in flags, logs and metrics.
pub const NAME: &str = "pvc-expiry";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// No pod has used the claim for a long time; the message says when it is deleted, and how
        /// to keep it.
        EXPIRING: Warning "claim" = "ExpiringUnused";
        /// Volume Warden removed the announcement of an expiry: the claim is not deleted at the
        /// announced time.
        EXPIRY_CANCELLED: Normal "claim" = "ExpiryCancelled";
        /// The claim was deleted because no pod used it; the message says how to restore it.
        EXPIRED: Normal "claim" = "ExpiredUnused";
        /// A claim, or the claims of a StorageClass, do not expire although annotated: the
        /// annotation is invalid, the data could not be restored, or the objects that may name the
        /// claim cannot be read.
        CANNOT_EXPIRE: Warning "claim, StorageClass" = "ErrExpiry";
        /// The API server refused to write or remove the announcement of `pvc-expiry`.
        FAILED_ANNOUNCE: Warning "claim" = "FailedAnnounceExpiry";
    }
}
