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
    /// A claim expires in seven days unless a pod uses it.
    pub const EXPIRING: &str = "ExpiringUnused";
    /// An announced claim does not expire: a pod uses it, for example.
    pub const EXPIRY_CANCELLED: &str = "ExpiryCancelled";
    /// No pod has used the claim for the time that its annotation or StorageClass says.
    pub const EXPIRED: &str = "ExpiredUnused";
    /// A claim cannot expire, although its annotation or StorageClass says so.
    pub const CANNOT_EXPIRE: &str = "ErrExpiry";
}
