//! What users are told of a volume.

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

/// The volume is ours from now on.
pub fn associated(volume: &Volume) -> Announcement {
    let note = format!(
        "its claim {} is looked after, so it is made available again when that is gone",
        claim_name(volume)
    );
    announcement(volume, ASSOCIATED, "Associate", false, note)
}

/// The volume is free of its claim.
pub fn released(volume: &Volume, mode: Mode) -> Announcement {
    let claim = claim_name(volume);
    let note = match mode {
        Mode::Full => format!("its claim {claim} is gone; any claim may have the volume now"),
        Mode::Soft => {
            format!("its claim {claim} is gone; only a new claim of that name may have the volume")
        }
    };
    announcement(volume, RELEASED, "Release", false, note)
}

/// What users should know of a volume that is left as it is, if anything.
pub fn left(volume: &Volume, left: Left, options: &Options) -> Option<Announcement> {
    let (reason, action, note) = match left {
        Left::NotRetained => {
            let note = "it is labelled to be made available again, but its reclaim policy is not Retain, so it is left alone: what is \
                        on it may be on its way out";
            (CANNOT_RELEASE, "Release", note.to_owned())
        }
        Left::Deleting => {
            let note = "it is labelled to be made available again, but is being deleted, so it is left alone";
            (CANNOT_RELEASE, "Release", note.to_owned())
        }
        Left::Orphaned => {
            let (claim, id) = (claim_name(volume), &options.id);
            let note = format!(
                "its claim {claim} is gone, and nothing says whose the volume is, so it stays Released. To have it made available \
                 again, label it {RELEASER_LABEL}={id}; delete it if what is on it is not needed"
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
