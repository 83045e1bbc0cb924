//! The Events of pv-releaser on a volume.

use super::{
    Mode, Options,
    reasons::{ASSOCIATED, CANNOT_RELEASE, ORPHANED, RELEASED},
    rule::Left,
};
use crate::{
    cluster::{Announcement, Target},
    objects::{Kind, Volume, managed_by::RELEASER_LABEL, volume::ClaimRef},
};
use k8s_openapi::api::core::v1::ObjectReference;

/// The Event that the volume was labelled.
pub fn associated(volume: &Volume) -> Announcement {
    let note = format!(
        "the claim {} of this volume is managed, so the volume is made available again when the claim is deleted",
        claim_name(volume)
    );
    announcement(volume, ASSOCIATED, "Associate", false, note)
}

/// The Event that the volume was released from its claim.
pub fn released(volume: &Volume, mode: Mode) -> Announcement {
    let claim = claim_name(volume);
    let note = match mode {
        Mode::Full => format!(
            "the claim {claim} of this volume is deleted; any claim can be bound to the volume now"
        ),
        Mode::Soft => {
            format!(
                "the claim {claim} of this volume is deleted; only a new claim of that name can be bound to the volume"
            )
        }
    };
    announcement(volume, RELEASED, "Release", false, note)
}

/// The Event that says why the volume is left unchanged; none if its user need not know.
pub fn left(volume: &Volume, left: Left, options: &Options) -> Option<Announcement> {
    let (reason, action, note) = match left {
        Left::NotRetained => {
            let note = "the volume is labelled to be made available again, but its reclaim policy \
                        is not Retain, so it is left unchanged: its data may be about to be deleted";
            (CANNOT_RELEASE, "Release", note.to_owned())
        }
        Left::Deleting => {
            let note = "the volume is labelled to be made available again, but is being deleted, \
                        so it is left unchanged";
            (CANNOT_RELEASE, "Release", note.to_owned())
        }
        Left::Orphaned => {
            let (claim, id) = (claim_name(volume), &options.id);
            let note = format!(
                "the claim {claim} of this volume is deleted, and no label assigns the volume to \
                 an installation, so the volume stays Released. To make the volume available \
                 again, label it {RELEASER_LABEL}={id}; delete it if its data is not needed"
            );
            (ORPHANED, ORPHANED, note)
        }
        Left::Unlabeled | Left::OtherInstallation | Left::InUse | Left::Freed | Left::Attached => {
            return None;
        }
    };
    Some(announcement(volume, reason, action, true, note))
}

fn announcement(
    volume: &Volume,
    reason: &'static str,
    action: &'static str,
    warning: bool,
    note: String,
) -> Announcement {
    Announcement {
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
