//! Whether a volume whose claim is gone may be given to the next claim, and what has to be done first.
//!
//! A claim that is bound to storage which is being deleted, or that another node still writes to,
//! is worse off than one that waits. So the command that frees a volume is printed only where the
//! policy is Retain and was Retain when the volume was released, nothing deletes the volume, and no
//! VolumeAttachment names it. The command fails if the volume has changed since it was read.

use super::{wardens, writers};
use crate::why::{Cause, Object, Selection, World, read::PersistentVolume};
use k8s_openapi::{
    api::{core::v1::PersistentVolumeStatus, storage::v1::VolumeAttachment},
    jiff::Timestamp,
};
use kube::ResourceExt;
use serde_json::{Value, json};

/// What has to be done before the volume is freed.
struct First {
    /// Why, as a sentence.
    why: String,
    command: String,
    purpose: &'static str,
}

/// `cause`, whose next step removes `path` from the volume, as far as that is safe: `purpose` says
/// what for. Otherwise the next step is what has to be done first.
pub(super) fn free(
    world: &World,
    volume: &PersistentVolume,
    cause: Cause,
    path: &str,
    purpose: &str,
) -> Cause {
    let Some(first) = first(world, volume) else {
        let removal = json!({"op": "remove", "path": path});
        return cause.run(patch(volume, removal), purpose);
    };
    let sentence = format!("{} {}", cause.sentence, first.why);
    Cause { sentence, ..cause }.run(first.command, first.purpose)
}

fn first(world: &World, volume: &PersistentVolume) -> Option<First> {
    deleted(volume)
        .or_else(|| to_be_deleted(volume))
        .or_else(|| not_released(volume))
        .or_else(|| attached(world, volume))
}

fn deleted(volume: &PersistentVolume) -> Option<First> {
    volume.metadata.deletion_timestamp.as_ref()?;
    Some(First {
        why: "The volume is being deleted, so nothing may be bound to it.".to_owned(),
        command: format!("volume-warden why {}", object(volume).arguments()),
        purpose: "to see what holds it; a deletion cannot be undone",
    })
}

/// The policy is not Retain.
fn to_be_deleted(volume: &PersistentVolume) -> Option<First> {
    let policy = policy(volume);
    if policy == "Retain" {
        return None;
    }
    let retain =
        json!({"op": "replace", "path": "/spec/persistentVolumeReclaimPolicy", "value": "Retain"});
    let command = patch(volume, retain);
    Some(match phase(volume) {
        "Bound" => First {
            why: format!("Its policy is {policy}: what is on it is deleted once it is Released."),
            command,
            purpose: "at once, if what is on it is to be kept; then ask again",
        },
        _ => First {
            why: format!(
                "Its policy is {policy}, so what is on it is being deleted, or is deleted already."
            ),
            command,
            purpose: "at once, if what is on it is to be kept: it helps only if its driver has \
                      not begun to delete. Then make sure that the storage still exists",
        },
    })
}

/// It is not Released, or was Released under another policy: what was done to it then is not known.
fn not_released(volume: &PersistentVolume) -> Option<First> {
    let doubtful = |why| First {
        why,
        command: object(volume).describe(),
        purpose: "to find its driver and handle; only if the storage behind it certainly exists \
                  may a claim have it",
    };
    match phase(volume) {
        "Released" => {
            let changed = policy_changed_after_release(volume)?;
            Some(doubtful(format!(
                "Its policy became Retain at {changed}, after it was Released: what is on it may \
                 be deleted already."
            )))
        }
        "Failed" => Some(doubtful(
            "It has Failed: a provisioner tried to delete its data.".to_owned(),
        )),
        _ => Some(First {
            why: "kube-controller-manager has not released it yet.".to_owned(),
            command: wardens::in_tree_lease().describe(),
            purpose: "to see whether it runs, if this lasts",
        }),
    }
}

/// When the policy was written, if the volume was Released before.
fn policy_changed_after_release(volume: &PersistentVolume) -> Option<Timestamp> {
    let path = ["f:spec", "f:persistentVolumeReclaimPolicy"];
    let written = writers::writer(&volume.metadata, &path)?.time.as_ref()?.0;
    let released = status(volume)?.last_phase_transition_time.as_ref()?.0;
    (written > released).then_some(written)
}

fn attached(world: &World, volume: &PersistentVolume) -> Option<First> {
    let attachments = world.list::<VolumeAttachment>("", Selection::default());
    let Some(attachments) = attachments.found() else {
        return Some(First {
            why: "Whether a node has it attached is not known.".to_owned(),
            command: "kubectl get volumeattachments".to_owned(),
            purpose: "to make sure that none names the volume, before a claim may have it",
        });
    };
    let name = volume.name_any();
    let of_it = |each: &&VolumeAttachment| {
        each.spec.source.persistent_volume_name.as_deref() == Some(&name)
    };
    let attachment = attachments.iter().find(of_it)?;
    Some(First {
        why: format!(
            "The node {} still has it attached (VolumeAttachment {}).",
            attachment.spec.node_name,
            attachment.name_any()
        ),
        command: format!(
            "kubectl describe volumeattachment {}",
            attachment.name_any()
        ),
        purpose: "to see what detaching waits for; a claim may have the volume after that",
    })
}

/// The change, as long as the volume is as it was read.
fn patch(volume: &PersistentVolume, change: Value) -> String {
    let version = volume.resource_version().unwrap_or_default();
    let operations = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        change,
    ]);
    let arguments = object(volume).arguments();
    format!("kubectl patch {arguments} --type=json -p '{operations}'")
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

/// The API server defaults it; where it is missing nothing is known.
fn policy(volume: &PersistentVolume) -> &str {
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy.unwrap_or("unknown")
}
