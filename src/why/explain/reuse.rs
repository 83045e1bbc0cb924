//! Decides whether a user may give a volume whose claim is deleted to another claim, by removing
//! its `claimRef` or the uid in it, and what the user has to do first.
//!
//! A claim that is bound to storage which is being deleted, or that another node still writes to,
//! loses data; a claim that waits does not. So the command that changes `claimRef` is printed only
//! if the volume is Released, its policy is Retain and not known to be written later, it is not
//! being deleted and not in the trash, and no VolumeAttachment names it. The command fails if the
//! volume has changed since it was read.

use super::{attachments, trash, wardens, writers};
use crate::{
    objects::reuse::CLAIM_NAMESPACE,
    why::{Cause, Object, World, read::PersistentVolume},
};
use json_patch::jsonptr::PointerBuf;
use k8s_openapi::{api::core::v1::PersistentVolumeStatus, jiff::Timestamp};
use kube::ResourceExt;
use serde_json::{Value, json};

/// A step that is required before the user may give the volume to another claim.
struct First {
    /// Why the step is required, as a sentence.
    why: String,
    command: String,
    purpose: &'static str,
}

/// Adds the next step to `cause`. If another claim may get the volume safely, the step removes the
/// field `path` from the volume, and `purpose` says when the user should do so. Otherwise the step
/// is the one that is required before, with its reason.
pub(super) fn free(
    world: &World,
    volume: &PersistentVolume,
    cause: Cause,
    path: &str,
    purpose: &str,
) -> Cause {
    let Some(first) = first(world, volume) else {
        return cause.run(patch(volume, &removals(volume, path)), purpose);
    };
    let sentence = format!("{} {}", cause.sentence, first.why);
    Cause { sentence, ..cause }.run(first.command, first.purpose)
}

/// Adds the next step to `cause`, for a parked volume that no claim gets: it sets the `claimRef` to
/// a claim, or is the one that is required before, with its reason.
pub(super) fn hand_over(world: &World, volume: &PersistentVolume, cause: Cause) -> Cause {
    if let Some(First {
        why,
        command,
        purpose,
    }) = attached(world, volume)
    {
        let sentence = format!("{} {why}", cause.sentence);
        return Cause { sentence, ..cause }.run(command, purpose);
    }
    let path = "/spec/claimRef";
    let reserve = json!({"op": "add", "path": path,
        "value": {"namespace": "NAMESPACE", "name": "NAME"}});
    let changes = [&removals(volume, path)[..], &[reserve]].concat();
    cause.run(
        patch(volume, &changes),
        "only if the claim NAME of the namespace NAMESPACE may see the data",
    )
}

/// Returns the removals of the field and, if the volume has one, of the record of pv-releaser: with
/// it, the volume would be parked again for the earlier namespace of its claim.
fn removals(volume: &PersistentVolume, path: &str) -> Vec<Value> {
    let recorded = volume.annotations().contains_key(CLAIM_NAMESPACE);
    let annotation = PointerBuf::from_tokens(["metadata", "annotations", CLAIM_NAMESPACE]);
    let record = recorded.then(|| annotation.to_string());
    let paths = record.into_iter().chain([path.to_owned()]);
    paths
        .map(|path| json!({"op": "remove", "path": path}))
        .collect()
}

/// Adds the next step that saves the data of a volume which is Bound and being deleted: to set the
/// policy Retain or, if it is Retain, to save the volume's manifest. With this policy, the storage
/// stays when the volume is deleted after its claim.
pub(super) fn rescue(volume: &PersistentVolume, cause: Cause) -> Cause {
    if let Some(First {
        why,
        command,
        purpose,
    }) = to_be_deleted(volume)
    {
        let sentence = format!("{} {why}", cause.sentence);
        return Cause { sentence, ..cause }.run(command, purpose);
    }
    let sentence = format!(
        "{} Its policy is Retain, so its storage stays when the volume is deleted with its claim.",
        cause.sentence
    );
    let (arguments, name) = (object(volume).arguments(), volume.name_any());
    Cause { sentence, ..cause }.run(
        format!("kubectl get {arguments} -o yaml > {name}.yaml"),
        "before the claim is deleted; then create the volume again from this file, without uid, \
         resourceVersion, deletionTimestamp and the uid in claimRef, and the claim again",
    )
}

fn first(world: &World, volume: &PersistentVolume) -> Option<First> {
    deleted(volume)
        .or_else(|| in_trash(volume))
        .or_else(|| to_be_deleted(volume))
        .or_else(|| not_released(volume))
        .or_else(|| attached(world, volume))
}

fn deleted(volume: &PersistentVolume) -> Option<First> {
    volume.metadata.deletion_timestamp.as_ref()?;
    Some(First {
        why: "The volume is being deleted, so no claim may be bound to it.".to_owned(),
        command: format!("volume-warden why {}", object(volume).arguments()),
        purpose: "to see what holds the volume; its deletion cannot be undone",
    })
}

/// The required step if the volume is in the trash, where only pvc-trash may give it to a claim, or
/// if it is purged, so that its data cannot be restored. None otherwise.
fn in_trash(volume: &PersistentVolume) -> Option<First> {
    if trash::is_purged(volume) {
        return Some(First {
            why: "The volume was in the trash and is purged: its data is being deleted and cannot \
                  be restored."
                .to_owned(),
            command: object(volume).describe(),
            purpose: "to see whether the volume is deleted yet",
        });
    }
    let (kept, undelete) = trash::kept(volume).zip(trash::undelete(volume))?;
    Some(First {
        why: format!("The volume is in the trash: its data is kept {kept}."),
        command: format!("{undelete} --new-name NEW"),
        purpose: "to restore the data in a new claim NEW; to use the present name, delete the claim \
                  that has it first, and omit --new-name",
    })
}

/// The required step if the policy of the volume is not Retain: to set the policy Retain. Otherwise
/// the storage driver deletes the data once the volume is Released, or has done so already.
fn to_be_deleted(volume: &PersistentVolume) -> Option<First> {
    let policy = policy(volume);
    if policy == "Retain" {
        return None;
    }
    let retain =
        json!({"op": "replace", "path": "/spec/persistentVolumeReclaimPolicy", "value": "Retain"});
    let command = patch(volume, &[retain]);
    Some(match phase(volume) {
        "Bound" => First {
            why: format!(
                "The volume's policy is {policy}: its data is deleted once the volume is Released."
            ),
            command,
            purpose: "immediately, if the data on the volume is to be kept; then run volume-warden why \
                      again",
        },
        _ => First {
            why: format!(
                "The volume's policy is {policy}, so its data is being deleted, or is deleted already."
            ),
            command,
            purpose: "immediately, if the data on the volume is to be kept: this helps only if the \
                      driver has not begun to delete the data. Then make sure that the storage \
                      of the volume still exists",
        },
    })
}

/// The required step if the volume is not Released yet or has Failed, or if its policy was written
/// after it was Released, so that its data may be deleted already.
fn not_released(volume: &PersistentVolume) -> Option<First> {
    let doubtful = |why| First {
        why,
        command: object(volume).describe(),
        purpose: "to find the driver and the handle of the volume; let a claim use the volume only \
                  if its storage certainly exists",
    };
    match phase(volume) {
        "Released" => {
            let changed = policy_changed_after_release(volume)?;
            Some(doubtful(format!(
                "The volume's policy became Retain at {changed}, after the volume was Released: its \
                 data may be deleted already."
            )))
        }
        "Failed" => Some(doubtful(
            "The volume has Failed: a provisioner tried to delete its data.".to_owned(),
        )),
        _ => Some(First {
            why: "kube-controller-manager has not released the volume yet.".to_owned(),
            command: wardens::in_tree_lease().describe(),
            purpose: "to see whether kube-controller-manager runs, if the volume is not Released soon",
        }),
    }
}

/// The time in the `managedFields` of the client that wrote the volume's policy, if it is after
/// the volume was Released. None if it is before, or if either time is unknown.
fn policy_changed_after_release(volume: &PersistentVolume) -> Option<Timestamp> {
    let path = ["f:spec", "f:persistentVolumeReclaimPolicy"];
    let written = writers::writer(&volume.metadata, &path)?.time.as_ref()?.0;
    let released = status(volume)?.last_phase_transition_time.as_ref()?.0;
    (written > released).then_some(written)
}

fn attached(world: &World, volume: &PersistentVolume) -> Option<First> {
    let Some(attachments) = attachments::all(world) else {
        return Some(First {
            why: "It is not known whether a node has the volume attached.".to_owned(),
            command: "kubectl get volumeattachments".to_owned(),
            purpose: "to make sure that no VolumeAttachment names the volume; only then may a claim be \
                      bound to it",
        });
    };
    let name = volume.name_any();
    let attachment = attachments::of(&attachments, &name).next()?;
    Some(First {
        why: format!(
            "The node {} still has the volume attached (VolumeAttachment {}).",
            attachment.spec.node_name,
            attachment.name_any()
        ),
        command: format!(
            "kubectl describe volumeattachment {}",
            attachment.name_any()
        ),
        purpose: "to see what the detachment waits for; let a claim use the volume only after the detachment",
    })
}

/// The command that applies the changes, and fails if the volume has changed since it was read.
fn patch(volume: &PersistentVolume, changes: &[Value]) -> String {
    let version = volume.resource_version().unwrap_or_default();
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    let operations = [&[test], changes].concat();
    object(volume).patch(&json!(operations))
}

fn object(volume: &PersistentVolume) -> Object {
    Object::volume(&volume.name_any())
}

fn status(volume: &PersistentVolume) -> Option<&PersistentVolumeStatus> {
    volume.status.as_ref()
}

fn phase(volume: &PersistentVolume) -> &str {
    let phase = status(volume).and_then(|status| status.phase.as_deref());
    phase.unwrap_or("Pending")
}

/// The reclaim policy of the volume. The API server always sets it, so `unknown` is not expected.
fn policy(volume: &PersistentVolume) -> &str {
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy.unwrap_or("unknown")
}
