//! `pvc-trash`: the deletion of a claim can be undone for as long as its StorageClass says.
//!
//! **Rule.** A volume of a StorageClass with the annotation `volume-warden.dev/undelete-window`
//! gets the reclaim policy Retain and a record, at its creation or while it is Bound. When its claim is
//! deleted, the volume is *in the trash*: the record says since when. A claim with the annotation
//! `volume-warden.dev/undelete` gets the volume back. When the window has ended, the volume is
//! *purged*: it gets the policy Delete, and its provisioner deletes it with its data.
//!
//! The policy is set to Delete only by a purge, and by the class that disables the trash while the
//! volume is Bound. A provisioner deletes the data of a volume that is Released and has the policy
//! Delete, by its own cache and without another look, so no version of a volume in the trash may be
//! both. For the same reason a purge is final.
//!
//! A record holds for one claim, by its uid. For a later claim of the volume it is written again.
//!
//! **Source.** `pkg/controller/volume/persistentvolume/pv_controller.go` of Kubernetes 1.34, and
//! `controller/controller.go` of sig-storage-lib-external-provisioner v13.

mod assemble;
mod caches;
mod confirm;
mod copies;
mod copy_rule;
mod disable;
mod entry;
mod metrics;
mod notices;
mod options;
mod patch;
mod purge;
mod purge_limit;
mod rebind;
mod rebinding;
mod reconcile;
mod reports;
mod restorers;
mod rule;
mod target;
#[cfg(test)]
mod tests;
mod triggers;
mod undelete;
mod usage;
mod webhooks;

pub use assemble::PvcTrash;
pub use caches::Caches;
pub use copies::forget;
pub use entry::{Entry, Next};
pub use metrics::register as register_metrics;
pub use patch::{disable, give, purge};
pub use rule::{Decision, Left, View, decide};
pub use webhooks::restore;

/// Name of the component pvc-trash in flags, logs and metrics.
pub const NAME: &str = "pvc-trash";

/// Reasons of actions and of no action: Event reasons, log fields and metric labels.
pub mod reasons {
    /// The class of a Bound volume has an undelete window.
    pub const TRASH_ENABLED: &str = "TrashEnabled";
    /// The class of a Bound volume disables the trash.
    pub const TRASH_DISABLED: &str = "TrashDisabled";
    /// The claim of a volume is deleted, and its data is kept.
    pub const MOVED_TO_TRASH: &str = "MovedToTrash";
    /// A new claim gets the volume of a deleted one.
    pub const RESTORED: &str = "Restored";
    /// The claim that a volume is reserved for is not Bound yet, so Volume Warden changes the
    /// claim: the volume binder then retries.
    pub const BINDING_RETRIED: &str = "BindingRetried";
    /// A volume is reserved for a claim that was deleted or cannot be bound to it.
    pub const RETURNED_TO_TRASH: &str = "ReturnedToTrash";
    /// The window of a volume has ended, or a user requested its deletion.
    pub const PURGED: &str = "Purged";
    /// The copy of a volume's object is created or changed.
    pub const VOLUME_SAVED: &str = "VolumeSaved";
    /// A copy is deleted, because pvc-trash no longer keeps its volume, or the volume was created
    /// again.
    pub const VOLUME_FORGOTTEN: &str = "VolumeForgotten";
    /// A claim could not get the volume that it requests.
    pub const CANNOT_RESTORE: &str = "ErrRestore";
    /// The trash of the namespace has reached its limit, so the trash is not enabled for a volume.
    pub const TRASH_FULL: &str = "TrashFull";
    /// The annotations of a volume or StorageClass cannot be read.
    pub const CANNOT_READ: &str = "ErrTrash";
}
