//! `pvc-trash`: the deletion of a claim can be undone until its undelete window ends.
//!
//! **Rule.** A volume of a StorageClass whose annotation `volume-warden.dev/undelete-window` is a
//! duration gets the reclaim policy Retain and a record, at its creation or while it is Bound. When
//! its claim is deleted, the volume is *in the trash*: the record says since when. A new claim with
//! the annotation `volume-warden.dev/undelete`, or, if the class requests that, with the name of
//! the deleted claim, gets the volume. When the window has ended, or a user requests it, Volume
//! Warden *purges* a volume that had the policy Delete: it sets the policy Delete again, and the
//! provisioner deletes the volume with its data.
//!
//! Volume Warden sets the policy Delete only in a purge, and while the volume is Bound, if its
//! class or `drain` disables the trash. A provisioner deletes the data of each volume that is
//! Released and has the policy Delete in its cache, without another read. So no version of a volume
//! in the trash may be both before the purge, and a purge is final.
//!
//! A record holds for one claim, by its uid. For a later claim of the volume, Volume Warden writes
//! a new record.
//!
//! **Source.** `pkg/controller/volume/persistentvolume/pv_controller.go` of Kubernetes 1.34, and
//! `controller/controller.go` of sig-storage-lib-external-provisioner v13.

mod assemble;
mod caches;
mod confirm;
mod confirm_purge;
mod copies;
mod copy_rule;
mod disable;
mod metrics;
mod notices;
mod options;
mod patch;
mod purge;
mod purge_limit;
mod rebind;
mod rebinding;
mod reconcile;
mod recorded;
mod refusals;
mod renamed;
mod reports;
mod restoration;
mod restore_requests;
mod rule;
#[cfg(test)]
mod tests;
mod triggers;
mod undelete;
mod usage;
mod webhooks;

pub use assemble::PvcTrash;
#[cfg(feature = "simulation")]
pub use caches::Caches;
pub use copies::delete_copy;
#[cfg(feature = "simulation")]
pub use metrics::register as register_metrics;
pub use patch::{disable, give, purge};
pub use restoration::restore;

/// Name of the component pvc-trash in flags, logs and metrics.
pub const NAME: &str = "pvc-trash";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// The claim is deleted, and its data is kept until the end of its undelete window, or
        /// without limit if the reclaim policy was Retain.
        MOVED_TO_TRASH: Normal "volume, claim" = "MovedToTrash";
        /// The volume of a deleted claim is reserved for the new claim that requests it.
        RESTORED: Normal "volume, claim" = "Restored";
        /// The claim that the volume was reserved for was deleted or could not be bound.
        RETURNED_TO_TRASH: Warning "volume" = "ReturnedToTrash";
        /// The provisioner deletes the volume with its data: the undelete window ended, or a user
        /// requested it.
        PURGED: Normal "volume" = "Purged";
        /// The volume would be purged, but another volume has the same data.
        NOT_PURGED: Warning "volume" = "NotPurged";
        /// The claim does not get the data that it requests.
        CANNOT_RESTORE: Warning "claim" = "ErrRestore";
        /// The trash of the namespace has reached `--trash-max-bytes`, so the data of the claim
        /// will be deleted with the claim.
        TRASH_FULL: Warning "volume, claim" = "TrashFull";
        /// The record of the trash or the undelete window cannot be read, the object of a volume is
        /// too large for a copy, or the API server refused a write of `pvc-trash`.
        TRASH_ERROR: Warning "volume, claim, StorageClass, ConfigMap" = "ErrTrash";
        /// The class of a Bound volume has an undelete window: its claim can be restored after its
        /// deletion.
        TRASH_ENABLED = "TrashEnabled";
        /// The StorageClass disables the trash, and the volume got its original policy back.
        TRASH_DISABLED = "TrashDisabled";
        /// A claim that a volume is reserved for is not Bound yet, so Volume Warden changed an
        /// annotation of the claim to trigger another sync by the volume binder.
        BINDING_RETRIED = "BindingRetried";
        /// The copy of the volume's object was created or changed.
        VOLUME_SAVED = "VolumeSaved";
        /// The copy of the volume's object was deleted, by `pvc-trash` or `drain`: the trash keeps
        /// the volume no longer, or the volume was created again.
        VOLUME_FORGOTTEN = "VolumeForgotten";
    }
}
