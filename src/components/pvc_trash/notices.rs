//! The Events of pvc-trash.

use super::reasons::{
    CANNOT_RESTORE, MOVED_TO_TRASH, NOT_PURGED, PURGED, RESTORED, RETURNED_TO_TRASH, TRASH_ERROR,
    TRASH_FULL,
};
use crate::{
    cluster::EventContent,
    objects::{
        ObjectName, Volume,
        claim::ClaimPhase,
        saved_volume::MAX_MANIFEST,
        trash::{OriginalPolicy, TRASH, TrashRecord},
        undelete_window::{UNDELETE_WINDOW, UNDELETE_WINDOW_MAX},
    },
};

/// Why a volume is not reserved for the claim that requests it.
#[derive(Clone, Copy)]
pub enum RestoreObstacle<'a> {
    /// The volume is being deleted with its data.
    Purging(&'a Volume),
    /// The volume does not exist.
    Absent {
        /// The command that creates it again from the copy of its object; none without a copy.
        repair: Option<&'a str>,
    },
}

/// The Event that a claim was deleted and can be restored with this command. It is also published
/// in the namespace of the claim, whose users may not read volumes.
pub fn moved_to_trash(record: &TrashRecord, command: &str) -> EventContent {
    let claim = &record.claim;
    let note = format!(
        "claim {}/{} is deleted. Its data is kept {}. To restore it: {}",
        claim.namespace,
        claim.name,
        until(record),
        command
    );
    EventContent::normal(MOVED_TO_TRASH, "MoveToTrash", note)
}

/// The Event that a volume is reserved for a new claim.
pub fn restored(claim: &ObjectName) -> EventContent {
    let note = format!(
        "the volume of the deleted claim is reserved for the new claim {claim}, which has the data \
         as soon as it is Bound"
    );
    EventContent::normal(RESTORED, "Restore", note)
}

/// The Event that a volume is in the trash again.
pub fn returned(volume: &ObjectName, record: &TrashRecord) -> EventContent {
    let note = format!(
        "volume {} was reserved for a claim that is deleted or could not be bound to it, and is in \
         the trash again. Its data is kept {}",
        volume.name,
        until(record)
    );
    EventContent::warning(RETURNED_TO_TRASH, "ReturnToTrash", note)
}

/// The Event that the data of a volume is deleted permanently.
pub fn purged(record: &TrashRecord, requested: bool) -> EventContent {
    let claim = format!("{}/{}", record.claim.namespace, record.claim.name);
    let why = if requested {
        "a user requested it".to_owned()
    } else {
        format!("the undelete window ended at {}", ends(record))
    };
    let note = format!("the volume of the deleted claim {claim} is deleted with its data: {why}");
    EventContent::normal(PURGED, "Purge", note)
}

/// The Event for a claim that requests data it cannot get.
fn not_restored(claim: &ObjectName, why: &str) -> EventContent {
    let note = format!("claim {claim} does not get the data that it requests: {why}");
    EventContent::warning(CANNOT_RESTORE, "Restore", note)
}

/// The Event for a claim that requests a volume of another namespace. A record without the uid of
/// its namespace is for none, and users do not learn which claims others had.
pub fn foreign(claim: &ObjectName) -> EventContent {
    let why = "the volume in the trash belongs to a claim of another namespace, or of a namespace of \
               this name that was deleted, or its namespace is not known. Only an administrator can \
               restore it, with the flag --to-namespace of volume-warden undelete";
    not_restored(claim, why)
}

/// The Event for a claim in this phase that was not Bound to the volume that was reserved for it.
pub fn unbindable(claim: &ObjectName, phase: ClaimPhase) -> EventContent {
    let why = match phase {
        ClaimPhase::Pending => {
            "it could not be bound to the volume within five minutes. The volume is in the trash \
             again. Check that kube-controller-manager runs, then delete the claim, and create it \
             again"
        }
        ClaimPhase::Bound => {
            "it is Bound to another volume. The volume with that data is in the trash again"
        }
        ClaimPhase::Lost => {
            "it is Lost. The volume is in the trash again. Delete the claim, and create it again"
        }
    };
    not_restored(claim, why)
}

/// The Event for a claim whose volume was purged, or does not exist any more, before it was
/// reserved for the claim.
pub fn volume_unavailable(claim: &ObjectName, obstacle: RestoreObstacle<'_>) -> EventContent {
    let why = match obstacle {
        RestoreObstacle::Purging(_) => {
            "the volume has been purged, which is final. Delete the claim".to_owned()
        }
        RestoreObstacle::Absent { repair: None } => {
            "the volume does not exist any more. Delete the claim".to_owned()
        }
        RestoreObstacle::Absent {
            repair: Some(command),
        } => format!(
            "the object of the volume was removed by force. An administrator can create it again: \
             {command}"
        ),
    };
    not_restored(claim, &why)
}

/// The Event for a StorageClass with an annotation that cannot be read.
pub fn unreadable_class(class: &str, annotation: &str, error: &str) -> EventContent {
    let effect = match annotation {
        UNDELETE_WINDOW => "the data of its new claims is deleted with them",
        UNDELETE_WINDOW_MAX => {
            "no namespace lengthens the undelete window of its new claims; recorded windows stay"
        }
        _ => "a claim that is created again gets a new volume",
    };
    let note = format!(
        "the annotation {annotation} of StorageClass {class} cannot be read, so {effect}: {error}"
    );
    EventContent::warning(TRASH_ERROR, TRASH_ERROR, note)
}

/// The Event, on a volume and on its claim, that the trash of the namespace is full: if the claim
/// is deleted before there is room, its data is deleted with it.
pub fn full(claim: &ObjectName) -> EventContent {
    let note = format!(
        "the trash of namespace {} has reached the limit --trash-max-bytes, so the data of claim \
         {claim} will be deleted with the claim. To see what is in the trash: volume-warden trash \
         -n {}",
        claim.namespace, claim.namespace
    );
    EventContent::warning(TRASH_FULL, "EnableTrash", note)
}

/// The Event for a volume that would be purged, but another volume has the same data.
pub fn shared(other: &str) -> EventContent {
    let note = format!(
        "this volume is not purged, because the volume {other} has the same data, which would be \
         deleted, too; it stays in the trash as long as both volumes exist"
    );
    EventContent::warning(NOT_PURGED, "Purge", note)
}

/// The Event for a volume whose record cannot be read.
pub fn unreadable() -> EventContent {
    let note = format!(
        "the annotation {TRASH} of this volume cannot be read, so the volume is left unchanged. \
         Restore or remove the annotation. If the ValidatingAdmissionPolicy volume-warden-trash \
         refuses that, delete the ValidatingAdmissionPolicyBinding of the same name, and recreate it \
         afterwards"
    );
    EventContent::warning(TRASH_ERROR, TRASH_ERROR, note)
}

/// The Event for a volume whose object is too large for a copy.
pub fn too_large() -> EventContent {
    let note = format!(
        "the object of this volume has more than {} KiB, so Volume Warden keeps no copy of it: if \
         the object is removed by force, volume-warden trash repair cannot create it again",
        MAX_MANIFEST / 1024
    );
    EventContent::warning(TRASH_ERROR, "SaveVolume", note)
}

/// The Event for a volume whose copy the API server refused with this message.
pub fn not_copied(system_namespace: &str, message: &str) -> EventContent {
    let note = format!(
        "the API server refused the copy of this volume's object, a ConfigMap in the namespace \
         {system_namespace}, and the write is retried. Without a copy, volume-warden trash repair \
         cannot create the volume again if its object is removed by force: {message}"
    );
    EventContent::warning(TRASH_ERROR, "SaveVolume", note)
}

/// Until when the data of the claim is kept.
fn until(record: &TrashRecord) -> String {
    match record.policy {
        OriginalPolicy::Retain => "until an administrator deletes it".to_owned(),
        OriginalPolicy::Delete => format!("until {}", ends(record)),
    }
}

fn ends(record: &TrashRecord) -> String {
    record.ends().map(|end| end.to_string()).unwrap_or_default()
}
