//! Volumes that pvc-trash keeps, so that the deletion of their claim can be undone.

use crate::{
    objects::{
        ObjectName,
        trash::TRASH,
        trash_entry::{Entry, Next},
        volume::Phase,
    },
    why::read::PersistentVolume,
};
use kube::ResourceExt;

/// Describes for how long the data of a volume in the trash is kept; none if the volume is not in
/// the trash.
pub(super) fn kept(volume: &PersistentVolume) -> Option<String> {
    let trimmed = &volume.trimmed;
    if trimmed.trash.is_none()
        || trimmed.phase != Phase::Released
        || !trimmed.retain
        || trimmed.deleting
    {
        return None;
    }
    let name = ObjectName::cluster_scoped(volume.name_any());
    let next = Entry::of(&name, trimmed).map(|entry| entry.next);
    Some(match next {
        Some(Next::Until(Some(end))) => format!("until {end}"),
        Some(Next::Until(None)) => "until its undelete window ends".to_owned(),
        Some(Next::Requested) => "only until it is purged, as a user requested".to_owned(),
        Some(Next::Kept) => "until an administrator deletes it".to_owned(),
        // The annotation belongs to an earlier claim of the volume, or cannot be parsed.
        Some(Next::Purging) | None => {
            format!("at least until Volume Warden writes its annotation {TRASH} again")
        }
    })
}

/// Returns whether the volume was in the trash and has the policy Delete again: its provisioner is
/// deleting its data.
pub(super) fn is_purged(volume: &PersistentVolume) -> bool {
    let trimmed = &volume.trimmed;
    trimmed.trash.is_some() && trimmed.phase == Phase::Released && trimmed.delete
}

/// Returns the command that restores the data of the volume, in a claim with the name of the
/// deleted one. If the record shows that only an administrator can restore it, that is his command.
pub(super) fn undelete(volume: &PersistentVolume) -> Option<String> {
    let claim = &volume.trimmed.claim_ref.as_ref()?.name;
    let (namespace, name) = (&claim.namespace, &claim.name);
    let record = volume.trimmed.trash.as_deref()?.record.as_ref();
    let by_users =
        record.is_none_or(|record| record.is_restorable() && record.claim.namespace_uid.is_some());
    let to = match by_users {
        true => String::new(),
        false => format!(" --to-namespace {namespace}"),
    };
    let volume = volume.name_any();
    Some(format!(
        "volume-warden undelete pvc {name} -n {namespace} --volume {volume}{to}"
    ))
}
