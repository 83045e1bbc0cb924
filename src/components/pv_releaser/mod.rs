//! `pv-releaser`: makes a volume that outlives its claim available again, with its data.
//!
//! **Rule.** An installation manages the volumes whose label
//! `reclaimable-pv-releaser.kubernetes.io/managed-by` is its controller id. A volume gets the
//! label when every managed-by label of its claim, found by name and uid, is the controller id; a
//! recently deleted claim still counts. The label is added at the volume's creation or once the
//! volume is Bound: in between the binder writes the volume, and its write would fail. Where this
//! is enabled, a volume without that label is also managed by its StorageClass. A volume with the
//! label of another installation is never changed.
//!
//! A managed volume is released when its phase is Released, its policy is Retain, it is not being
//! deleted and no VolumeAttachment names it. A cached attachment can prove that a node still has
//! the volume. Proof that no node has it requires a LIST that began after the volume was seen. A
//! release is one patch: it removes `spec.claimRef` (or only the fields that bind it to the
//! deleted claim), the label, and the binder's own annotation. In the scope `namespace` the release
//! *parks* the volume instead: its `claimRef` names a claim that no client can create, until Volume
//! Warden reserves the volume for the next claim of that namespace which it fits.
//!
//! An orphan is a volume that stays Released because no label assigns it to an installation. An
//! orphan is reported once, and counted.
//!
//! **Source.** plumber-cd's reclaimable-pv-releaser v0.1.1, and for StorageClasses v0.2.
//! Differences: claims are watched, so that a claim that exists for two seconds is not missed;
//! uids are compared; a volume whose policy is not Retain, that is being deleted or is still
//! attached is left unchanged; the label is the one that the original documents, and the one that
//! it wrote is read too.

mod assemble;
mod caches;
mod claims;
mod identity;
mod metrics;
mod notices;
mod options;
mod parked;
mod patch;
mod reconcile;
mod rule;
#[cfg(test)]
mod tests;
mod triggers;
mod webhooks;
#[cfg(test)]
mod webhooks_tests;

pub use assemble::PvReleaser;
pub use caches::Caches;
pub use claims::strip_binding_hook;
pub use identity::Identity;
pub use metrics::register as register_metrics;
pub use options::{Mode, Options, Scope};
pub use parked::Handover;
pub use reconcile::PvReleaserReconciler;
pub use rule::{
    Attachment, Decision, Left, Reservation, Unconfirmed, Verdict, View, decide, decide_reservation,
};
pub use webhooks::{VolumeWebhook, reservation_hook, volume_hook};

/// Name of the component pv-releaser in flags, logs and metrics.
pub const NAME: &str = "pv-releaser";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// Volume Warden labelled the volume, because this installation manages its claim.
        ASSOCIATED: Normal "volume" = "Associated";
        /// The volume's claimRef was removed, or the volume was parked, because its claim is deleted.
        RELEASED: Normal "volume" = "Released";
        /// The volume was parked, and is reserved for a new claim of its namespace.
        RESERVED: Normal "volume" = "Reserved";
        /// The API server did not write the managed-by label.
        CANNOT_ASSOCIATE: Warning "volume" = "ErrAssociatePV";
        /// The volume is managed and Released, but cannot be made available, or the API server refused
        /// the write.
        CANNOT_RELEASE: Warning "volume" = "ErrReleasePV";
        /// The volume is Released, and no label assigns it to an installation.
        ORPHANED: Warning "volume" = "Orphaned";
        /// The namespace of the volume's claim was recorded on the volume.
        RECORDED = "Recorded";
        /// A reservation ended, and the volume waits for another claim of its namespace.
        PARKED = "Parked";
    }
}
