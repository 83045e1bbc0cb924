//! The Events of pv-releaser on a volume.

use super::{
    Mode, Options, Scope,
    reasons::{ASSOCIATED, CANNOT_RELEASE, ORPHANED, PARKED, RELEASED, RESERVED},
    rule::LeaveReason,
};
use crate::{
    cluster::{EventContent, Target},
    objects::{
        Kind, ObjectName, Volume,
        managed_by::RELEASER_LABEL,
        reuse::{CLAIM_NAMESPACE, RELEASE_SCOPE, Record},
        volume::ClaimRef,
    },
};
use k8s_openapi::api::core::v1::ObjectReference;

/// The Event that the volume was labelled.
pub fn associated(volume: &Volume) -> EventContent {
    let note = format!(
        "the managed-by label of the claim {} names this installation, so this volume got the \
         label, too: it is made available again when the claim is deleted",
        claim_name(volume)
    );
    event_content(volume, ASSOCIATED, "Associate", false, note)
}

/// The Event that the volume was released from its claim.
pub fn released(volume: &Volume, scope: Scope, mode: Mode) -> EventContent {
    let claim = claim_name(volume);
    let note = match (mode, scope) {
        (Mode::Full, Scope::Cluster) => format!(
            "the claim {claim} of this volume is deleted; any claim can be bound to the volume now"
        ),
        (Mode::Full, Scope::Namespace) => format!(
            "the claim {claim} of this volume is deleted; the next claim of its namespace that the volume \
             fits gets the volume; if the namespace is deleted, too, the volume is kept without a \
             claim"
        ),
        (Mode::Soft, _) => {
            format!(
                "the claim {claim} of this volume is deleted; only a new claim of that name can be bound to the volume"
            )
        }
    };
    event_content(volume, RELEASED, "Release", false, note)
}

/// The Event that a parked volume was reserved for a new claim.
pub fn reserved(volume: &Volume) -> EventContent {
    let claim = claim_name(volume);
    let note = format!("the volume is reserved for the new claim {claim} of its namespace");
    EventContent {
        related: None,
        ..event_content(volume, RESERVED, "Reserve", false, note)
    }
}

/// The Event that a reservation ended which Volume Warden did not make, because the namespace of
/// the earlier claim is being deleted or was deleted.
pub fn parked(volume: &Volume, record: &Record) -> EventContent {
    let claim = claim_name(volume);
    let note = format!(
        "the volume is no longer reserved for the claim {claim}: the namespace {} of its earlier \
         claim is being deleted or was deleted, and claims of other namespaces do not get its data. \
         To give the volume to such a claim, remove its annotation {CLAIM_NAMESPACE} and set its \
         claimRef, in one patch",
        record.namespace
    );
    EventContent {
        related: None,
        ..event_content(volume, PARKED, "Park", true, note)
    }
}

/// The Event that says why the volume is left unchanged; none for a cause that needs no Event, or
/// that [`attached`] reports later.
pub fn left(volume: &Volume, left: LeaveReason, options: &Options) -> Option<EventContent> {
    let (reason, action, note) = match left {
        LeaveReason::NotRetained => {
            let note = "the volume is labelled to be made available again, but its reclaim policy \
                        is not Retain, so it is left unchanged: its data may be about to be deleted";
            (CANNOT_RELEASE, "Release", note.to_owned())
        }
        LeaveReason::Deleting => {
            let note = "the volume is labelled to be made available again, but is being deleted, \
                        so it is left unchanged";
            (CANNOT_RELEASE, "Release", note.to_owned())
        }
        LeaveReason::InvalidScope => {
            let note = format!(
                "the label {RELEASE_SCOPE} of the volume, or the annotation of its StorageClass, is neither \
                 namespace nor cluster, so the volume is left unchanged"
            );
            (CANNOT_RELEASE, "Release", note)
        }
        LeaveReason::Unrecorded => {
            let claim = claim_name(volume);
            let note = format!(
                "the claim {claim} of this volume is deleted, and nothing proves that the claim was in the \
                 present namespace of that name, so the volume stays Released. If any claim may see its \
                 data, label it {RELEASE_SCOPE}=cluster; else set its claimRef yourself, or delete it"
            );
            (CANNOT_RELEASE, "Release", note)
        }
        LeaveReason::Unwatched => {
            let claim = claim_name(volume);
            let note = format!(
                "the claim {claim} of this volume is deleted, and --namespace names another namespace, so no \
                 claim would get the volume, and it stays Released. If any claim may see its data, label it \
                 {RELEASE_SCOPE}=cluster"
            );
            (CANNOT_RELEASE, "Release", note)
        }
        LeaveReason::Orphaned => {
            let (claim, id) = (claim_name(volume), &options.id);
            let any = match options.scope() {
                Scope::Namespace => {
                    format!(" and, to let a claim of any namespace get it, {RELEASE_SCOPE}=cluster")
                }
                Scope::Cluster => String::new(),
            };
            let note = format!(
                "the claim {claim} of this volume is deleted, and no label assigns the volume to \
                 an installation, so the volume stays Released. To make the volume available \
                 again, label it {RELEASER_LABEL}={id}{any}: the next claim then sees its data. \
                 Delete the volume if its data is not needed"
            );
            (ORPHANED, ORPHANED, note)
        }
        LeaveReason::Excluded
        | LeaveReason::Unlabeled
        | LeaveReason::OtherInstallation
        | LeaveReason::InUse
        | LeaveReason::Freed
        | LeaveReason::Attached
        | LeaveReason::InTrash => return None,
    };
    Some(event_content(volume, reason, action, true, note))
}

/// The Event that a VolumeAttachment has kept the volume from being released for minutes.
pub fn attached(volume: &Volume, attachment: &ObjectName, node: &str) -> EventContent {
    let claim = claim_name(volume);
    let note = format!(
        "the claim {claim} of this volume is deleted, but the volume is still attached to the node \
         {node} (VolumeAttachment {attachment}), which may still write to it, so the volume is not \
         made available. To see what the detachment waits for: kubectl describe volumeattachment \
         {attachment}"
    );
    event_content(volume, CANNOT_RELEASE, "Release", true, note)
}

fn event_content(
    volume: &Volume,
    reason: &'static str,
    action: &'static str,
    warning: bool,
    note: String,
) -> EventContent {
    EventContent {
        reason,
        action,
        warning,
        note,
        related: volume.claimed_by().map(reference),
    }
}

fn claim_name(volume: &Volume) -> String {
    let claim = volume.claim_ref.as_ref();
    claim
        .map(|claim| claim.name.to_string())
        .unwrap_or_default()
}

fn reference(claim: &ClaimRef) -> ObjectReference {
    Target::new(Kind::PersistentVolumeClaim, &claim.name, &claim.uid).reference()
}
