//! The steps that are required before a user may give a volume to another claim.

use super::{object, patch};
use crate::why::{
    Cause, LiveReads, Object, Selection,
    explain::{attachments, controllers, trash, writers},
    read::PersistentVolume,
};
use k8s_openapi::api::core::v1::PersistentVolumeStatus;
use kube::ResourceExt;
use serde_json::json;

/// A step that is required before the user may give the volume to another claim.
pub(super) struct RequiredStep {
    /// Why the step is required, as a sentence.
    pub why: String,
    pub command: String,
    pub purpose: &'static str,
}

impl RequiredStep {
    /// Adds the reason and the step to the cause.
    pub(super) fn added_to(self, cause: Cause) -> Cause {
        cause.adding(&self.why).run(self.command, self.purpose)
    }
}

/// The step that is required before any claim may be bound to the volume; none if nothing is.
pub(super) fn before_free(reads: &LiveReads, volume: &PersistentVolume) -> Option<RequiredStep> {
    deleted(volume)
        .or_else(|| in_trash(reads, volume))
        .or_else(|| to_be_deleted(volume))
        .or_else(|| not_released(volume))
        .or_else(|| attached(reads, volume))
        .or_else(|| same_data(reads, volume))
}

/// The step that is required before a parked volume may be reserved for a claim; none if nothing
/// is.
pub(super) fn before_hand_over(
    reads: &LiveReads,
    volume: &PersistentVolume,
) -> Option<RequiredStep> {
    attached(reads, volume).or_else(|| same_data(reads, volume))
}

fn deleted(volume: &PersistentVolume) -> Option<RequiredStep> {
    volume.metadata.deletion_timestamp.as_ref()?;
    Some(RequiredStep {
        why: "The volume is being deleted, so no claim may be bound to it.".to_owned(),
        command: format!("volume-warden why {}", object(volume).arguments()),
        purpose: "to see what holds the volume; its deletion cannot be undone",
    })
}

/// The required step if the volume is in the trash, where only pvc-trash may give it to a claim, or
/// if it is purged, so that its data cannot be restored. None otherwise.
pub(super) fn in_trash(reads: &LiveReads, volume: &PersistentVolume) -> Option<RequiredStep> {
    if trash::is_purged(volume) {
        return Some(RequiredStep {
            why: "The volume was in the trash and is purged: its data is being deleted and cannot \
                  be restored."
                .to_owned(),
            command: object(volume).describe(),
            purpose: "to see whether the volume is deleted yet",
        });
    }
    let kept = trash::kept(volume)?;
    let why = format!("The volume is in the trash: its data is kept {kept}.");
    Some(match trash::undelete(reads, volume) {
        Some(undelete) => RequiredStep {
            why,
            command: format!("{undelete} --new-name NEW"),
            purpose: "to restore the data in a new claim NEW; to use the present name, delete the \
                      claim that has it first, and omit --new-name",
        },
        None => RequiredStep {
            why,
            command: object(volume).describe(),
            purpose: "to see its annotations and its claim",
        },
    })
}

/// The required step if the policy of the volume is not Retain: to set the policy Retain. Otherwise
/// the storage driver deletes the data once the volume is Released, or, if it is Released or has
/// Failed, may have done so already.
pub(super) fn to_be_deleted(volume: &PersistentVolume) -> Option<RequiredStep> {
    let policy = policy(volume);
    if policy == "Retain" {
        return None;
    }
    let retain =
        json!({"op": "replace", "path": "/spec/persistentVolumeReclaimPolicy", "value": "Retain"});
    let command = patch(volume, &[retain]);
    Some(match phase(volume) {
        "Released" | "Failed" => RequiredStep {
            why: format!(
                "The volume's policy is {policy}, so its data is being deleted, or is deleted already."
            ),
            command,
            purpose: "immediately, if the data on the volume is to be kept: this helps only if the \
                      driver has not begun to delete the data. Then make sure that the storage \
                      of the volume still exists",
        },
        _ => RequiredStep {
            why: format!(
                "The volume's policy is {policy}: its data is deleted once the volume is Released."
            ),
            command,
            purpose: "immediately, if the data on the volume is to be kept; then run volume-warden why \
                      again",
        },
    })
}

/// The required step if the volume is not Released yet or has Failed, or if its policy may have
/// been written after it was Released, so that its data may be deleted already.
pub(super) fn not_released(volume: &PersistentVolume) -> Option<RequiredStep> {
    let doubtful = |why| RequiredStep {
        why,
        command: object(volume).describe(),
        purpose: "to find the driver and the handle of the volume; let a claim use the volume only \
                  if its storage certainly exists",
    };
    match phase(volume) {
        "Released" => doubtful_policy(volume).map(doubtful),
        "Failed" => Some(doubtful(
            "The volume has Failed: a provisioner tried to delete its data.".to_owned(),
        )),
        _ => Some(RequiredStep {
            why: "kube-controller-manager has not released the volume yet.".to_owned(),
            command: controllers::in_tree_lease().describe(),
            purpose: "to see whether kube-controller-manager runs, if the volume is not Released soon",
        }),
    }
}

/// Why it is in doubt that the policy of the Released volume was Retain when it was released, as a
/// sentence. None if a client wrote the policy before, or the creation of the volume did. The times
/// have whole seconds, so a policy that was written in the second of the release may be later.
fn doubtful_policy(volume: &PersistentVolume) -> Option<String> {
    let path = ["f:spec", "f:persistentVolumeReclaimPolicy"];
    let writer = writers::writer(&volume.metadata, &path);
    let written = writer.and_then(|writer| writer.time.as_ref());
    let created = volume.metadata.creation_timestamp.as_ref();
    let transition = status(volume).and_then(|status| status.last_phase_transition_time.as_ref());
    match (written, created, transition) {
        (Some(written), Some(created), _) if written.0 <= created.0 => None,
        (Some(written), _, Some(released)) if written.0 < released.0 => None,
        (Some(written), _, Some(_)) => Some(format!(
            "The client that wrote the volume's policy Retain last changed the volume at {}, not before \
             the volume was Released: if it wrote the policy then, the data may be deleted already.",
            written.0
        )),
        _ => Some(
            "It is not known whether the volume's policy was Retain when the volume was Released: if \
             not, its data may be deleted already."
                .to_owned(),
        ),
    }
}

fn attached(reads: &LiveReads, volume: &PersistentVolume) -> Option<RequiredStep> {
    let Some(attachments) = attachments::all(reads) else {
        return Some(RequiredStep {
            why: "It is not known whether a node has the volume attached.".to_owned(),
            command: "kubectl get volumeattachments".to_owned(),
            purpose: "to make sure that no VolumeAttachment names the volume; only then may a claim be \
                      bound to it",
        });
    };
    let name = volume.name_any();
    let attachment = attachments::of(&attachments, &name).next()?;
    Some(RequiredStep {
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

/// The required step if another volume has the same data: two claims would use the data, and it is
/// deleted with the volume whose policy is Delete.
fn same_data(reads: &LiveReads, volume: &PersistentVolume) -> Option<RequiredStep> {
    let volumes = reads.list::<PersistentVolume>("", Selection::default());
    let Some(volumes) = volumes.found() else {
        return Some(RequiredStep {
            why: "It is not known whether another volume has the same data.".to_owned(),
            command: "kubectl get pv -o yaml".to_owned(),
            purpose: "to make sure that no other volume has the source of this one, for example the same \
                      driver and volumeHandle; only then may a claim be bound to it",
        });
    };
    let (name, source) = (volume.name_any(), &volume.trimmed.source);
    let mut others = volumes.iter().filter(|other| other.name_any() != name);
    let other = others.find(|other| source.is_shared_with(&other.trimmed.source))?;
    let other = other.name_any();
    Some(RequiredStep {
        why: format!("The volume {other} has the same data."),
        command: Object::volume(&other).describe(),
        purpose: "to see which claim uses that volume; let a claim use this volume only if no claim can \
                  use the other one",
    })
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
