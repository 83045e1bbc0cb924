//! `pv-releaser`: makes a volume that outlives its claim available again, with its data.
//!
//! **Rule.** An installation of Volume Warden manages the volumes whose label
//! `reclaimable-pv-releaser.kubernetes.io/managed-by` is its controller id. Volume Warden adds the
//! label to a volume with the policy Retain when every managed-by label of its claim, found by name
//! and uid, is the controller id. A claim that was deleted recently still counts. The label is
//! added at the creation of the volume or once the volume is Bound: in between the binder writes
//! the volume, and a label would make that write fail. With `--associate-by-storage-class`, a
//! volume without the label is also managed if its StorageClass names the controller id. A volume
//! with the label of another installation is not labelled or released.
//!
//! A managed volume is released only when its phase is Released, its policy is Retain, it is not
//! being deleted and no VolumeAttachment names it. A cached attachment can prove that a node still
//! has the volume. Proof that no node has it requires a LIST that began after the volume was seen.
//! A release is one patch: it removes `spec.claimRef` (in the mode `soft`, only its uid and
//! `resourceVersion`), the label (not with `--disable-automatic-association`), and annotations
//! about the binding. In the scope `namespace` and the mode `full`, the release does not remove
//! `claimRef` but *parks* the volume: `claimRef` then names a claim that no client can create,
//! until Volume Warden reserves the volume for the next claim of the same namespace that the volume
//! fits.
//!
//! An orphan is a volume that stays Released because no label or StorageClass assigns it to an
//! installation. An Event reports each orphan once, and a metric counts the orphans.
//!
//! **Source.** plumber-cd's reclaimable-pv-releaser v0.1.1, and for StorageClasses v0.2. Main
//! differences: by default, only claims of the namespace of the deleted claim get its volume;
//! claims are watched, so that a claim that exists for two seconds is not missed; uids are
//! compared; a volume whose policy is not Retain, that is being deleted or is still attached is
//! left unchanged; the label is the one that the original documents, and the one that it wrote is
//! read too.

mod assemble;
mod caches;
mod claims;
mod fitting;
mod identity;
mod metrics;
mod notices;
mod options;
mod parked;
mod patch;
mod reconcile;
mod reports;
mod reservation;
mod reservation_end;
mod rule;
#[cfg(test)]
mod tests;
mod triggers;
mod undelivered;
mod webhooks;
#[cfg(test)]
mod webhooks_tests;

pub use assemble::PvReleaser;
pub use caches::Caches;
pub use claims::strip_binding_hook;
pub use identity::Identity;
#[cfg(feature = "simulation")]
pub use metrics::register as register_metrics;
pub use options::{Mode, Options, Scope};
pub use parked::Reservations;
pub use reconcile::PvReleaserReconciler;
pub use webhooks::{VolumeWebhook, reservation_hook, volume_hook};

/// Name of the component pv-releaser in flags, logs and metrics.
pub const NAME: &str = "pv-releaser";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// Volume Warden labelled the volume, because this installation manages its claim.
        ASSOCIATED: Normal "volume" = "Associated";
        /// The claim of the volume is deleted, so Volume Warden removed the volume's claimRef, or
        /// only its uid (`--release-mode=soft`), or parked the volume: it waits for the next claim
        /// of the same namespace.
        RELEASED: Normal "volume" = "Released";
        /// The volume, which waited for a claim of its namespace, is reserved for a new claim.
        RESERVED: Normal "volume" = "Reserved";
        /// The API server did not write the managed-by label, or the record of the claim's
        /// namespace.
        CANNOT_ASSOCIATE: Warning "volume" = "ErrAssociatePV";
        /// The volume is managed and Released, but cannot be made available, or the API server
        /// refused the write.
        CANNOT_RELEASE: Warning "volume" = "ErrReleasePV";
        /// The volume stays Released, because no label or StorageClass assigns it to an
        /// installation.
        ORPHANED: Warning "volume" = "Orphaned";
        /// The namespace of the volume's claim was recorded on the volume.
        RECORDED = "Recorded";
        /// The reservation of the volume ended, and it waits for another claim of the namespace of
        /// its earlier claim. The Event is for a reservation that Volume Warden did not make.
        PARKED: Warning "volume" = "Parked";
    }
}
