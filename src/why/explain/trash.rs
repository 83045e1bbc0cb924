//! Volumes that pvc-trash keeps, so that the deletion of their claim can be undone.

use crate::{
    objects::{
        ObjectName, is_possible_name,
        namespace::has_opted_out,
        trash::{ANOTHER_NAMESPACE, TRASH, TrashRecord},
        trash_entry::{Entry, Next},
        volume::{Phase, ReclaimPolicy},
    },
    why::{LiveReads, Lookup, read::PersistentVolume},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;

/// Describes for how long the data of a volume in the trash is kept; none if the volume is not in
/// the trash.
pub(super) fn kept(volume: &PersistentVolume) -> Option<String> {
    let trimmed = &volume.trimmed;
    if trimmed.trash.is_none()
        || trimmed.phase != Phase::Released
        || !trimmed.retains()
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
        _ if trimmed.trash.as_ref()?.record.is_none() => format!(
            "until an administrator corrects or removes its annotation {TRASH}, which cannot be read"
        ),
        // The annotation belongs to an earlier claim of the volume.
        Some(Next::Purging) | None => {
            format!("at least until Volume Warden writes its annotation {TRASH} again")
        }
    })
}

/// Returns whether the volume was in the trash and has the policy Delete again: its provisioner is
/// deleting its data.
pub(super) fn is_purged(volume: &PersistentVolume) -> bool {
    let trimmed = &volume.trimmed;
    trimmed.trash.is_some()
        && trimmed.phase == Phase::Released
        && trimmed.reclaim_policy == ReclaimPolicy::Delete
}

/// Returns the command that restores the data of the volume, in a claim with the name of the
/// deleted one. If users of the namespace cannot restore it, the command is an administrator's:
/// the record says so, or the namespace is not the one of the deleted claim, does not exist, is
/// being deleted or has opted out.
///
/// None if the record cannot be read, because nothing is restored then, or if a name could be more
/// than one word for a shell: the API server does not validate the names in `claimRef`.
pub(super) fn undelete(reads: &LiveReads, volume: &PersistentVolume) -> Option<String> {
    let claim = &volume.trimmed.claim_ref.as_ref()?.name;
    let (namespace, name) = (&*claim.namespace, &*claim.name);
    let record = volume.trimmed.trash.as_deref()?.record.as_ref()?;
    if ![namespace, name].into_iter().all(is_possible_name) {
        return None;
    }
    let is_restorable = record.is_restorable() && record.claim.namespace_uid.is_some();
    let to = match reads.get::<Namespace>("", namespace) {
        Lookup::Found(found) if is_restorable && is_handled(&found, record) => String::new(),
        Lookup::Unread if is_restorable => String::new(),
        Lookup::Found(found) if found.metadata.deletion_timestamp.is_some() => {
            format!(" --to-namespace {ANOTHER_NAMESPACE}")
        }
        Lookup::Found(_) | Lookup::Unread => format!(" --to-namespace {namespace}"),
        Lookup::Absent => format!(" --to-namespace {ANOTHER_NAMESPACE}"),
    };
    let volume = volume.name_any();
    Some(format!(
        "volume-warden undelete pvc {name} -n {namespace} --volume {volume}{to}"
    ))
}

fn is_handled(namespace: &Namespace, record: &TrashRecord) -> bool {
    let metadata = &namespace.metadata;
    record.is_of(metadata.uid.as_deref())
        && metadata.deletion_timestamp.is_none()
        && !has_opted_out(metadata)
}
