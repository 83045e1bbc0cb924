//! PersistentVolumeClaims.

mod by_hand;
mod pending;
mod settled;
mod terminating;

use super::{retention, reuse, volumes::Misfit};
use crate::why::{
    Answer, Cause, Code, Evidence, Look, Object, World,
    read::{PersistentVolume, PersistentVolumeClaim},
};
use kube::ResourceExt;

/// Why it is as it is.
pub(super) fn explain(world: &World, object: &Object) -> Look<Answer> {
    let claim = world.get::<PersistentVolumeClaim>(object.namespace_name(), &object.name.name);
    let claim = match claim {
        Look::Found(claim) => claim,
        Look::Absent => return Look::Absent,
        Look::Unread => return Look::Unread,
    };
    let answer = Answer::of(object, state(&claim));
    if let Some(deleted) = &claim.metadata.deletion_timestamp {
        let (chain, also) = terminating::causes(world, object, &claim);
        let answer = answer.since(Some(deleted.0)).because(chain);
        return Look::Found(Answer { also, ..answer });
    }
    let created = claim.creation_timestamp().map(|time| time.0);
    let answer = answer.since(created);
    Look::Found(if answer.state == "Bound" {
        settled::explain(world, object, &claim, answer)
    } else {
        answer.because(causes(world, object, &claim))
    })
}

/// The chain of a claim in whatever state.
pub(super) fn causes(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Vec<Cause> {
    if claim.metadata.deletion_timestamp.is_some() {
        return terminating::causes(world, object, claim).0;
    }
    if let Some(dead) = retention::dead_owner(world, object, claim) {
        return vec![dead];
    }
    match state(claim) {
        "Bound" => settled::causes(world, object, claim),
        "Lost" => lost(world, object, claim),
        _ => pending::causes(world, object, claim),
    }
}

/// What holds it, or would if it were deleted now. Nothing where it would go at once.
pub(super) fn held(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Vec<Cause> {
    let held = terminating::causes(world, object, claim).0;
    let deleted = claim.metadata.deletion_timestamp.is_some();
    let holds = held
        .first()
        .is_some_and(|cause| cause.code != Code::NotInUse);
    if deleted || holds { held } else { Vec::new() }
}

/// In one word.
pub(super) fn state(claim: &PersistentVolumeClaim) -> &str {
    if claim.metadata.deletion_timestamp.is_some() {
        return "Terminating";
    }
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase.unwrap_or("Pending")
}

/// It was bound, and its volume is not there any more, or has become another's.
fn lost(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Vec<Cause> {
    let volume = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    let volume = volume.unwrap_or_default();
    let evidence = Evidence::new(object.to_string(), "spec.volumeName");
    let sentence = match world.get::<PersistentVolume>("", volume) {
        Look::Found(found) => {
            let other = found.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
            let other = other.and_then(|other| {
                Some(format!(
                    "{}/{}",
                    other.namespace.as_deref()?,
                    other.name.as_deref()?
                ))
            });
            let sentence = format!(
                "The claim was bound to the volume {volume}, which is {}.",
                other.map_or_else(
                    || "no claim's any more".to_owned(),
                    |other| format!("now the claim {other}'s")
                )
            );
            let cause = Cause::new(Code::VolumeReserved, sentence, evidence);
            return vec![cause.run(
                Object::volume(volume).describe(),
                "to see whose it is; this claim is bound again only if it is given back",
            )];
        }
        Look::Absent => format!(
            "The claim was bound to the volume {volume}, and there is no such object any more. If what was behind it still exists, a volume of the \
             same name, source and claimRef, with the policy Retain, makes the claim Bound again."
        ),
        Look::Unread => return Vec::new(),
    };
    let cause = Cause::new(Code::VolumeMissing, sentence, evidence);
    vec![cause.run(
        object.describe(),
        "to see what it was; then make the volume again, or restore what was on it into a new claim",
    )]
}

/// What keeps a claim from a volume that it could have.
fn in_the_way(world: &World, of: &PersistentVolume, misfit: &Misfit) -> Option<Cause> {
    let volume = &of.name_any();
    let object = Object::volume(volume);
    let show = format!("kubectl get {} -o wide", object.arguments());
    match misfit {
        Misfit::Deleting(since) => {
            let sentence =
                format!("The volume {volume} is being deleted, so nothing is bound to it.");
            let evidence = Evidence::new(object.to_string(), "metadata.deletionTimestamp");
            let cause = Cause::new(Code::VolumeDeleting, sentence, evidence.since(Some(*since)));
            Some(cause.run(
                format!("volume-warden why {}", object.arguments()),
                "to see what keeps it; the claim needs another volume",
            ))
        }
        Misfit::Reserved(other) => {
            let sentence = format!("The volume {volume} is reserved for the claim {other}.");
            let evidence = Evidence::new(object.to_string(), "spec.claimRef");
            Some(Cause::new(Code::VolumeReserved, sentence, evidence).run(
                show,
                "to see who has it; the claim needs another volume, or that one has to be given up by the other claim",
            ))
        }
        Misfit::Former(uid) => {
            let sentence = format!(
                "The volume {volume} belonged to an earlier claim of this name (uid {uid}). Kubernetes never binds it to a new claim of the same name."
            );
            let evidence = Evidence::new(object.to_string(), "spec.claimRef.uid");
            let cause = Cause::new(Code::ClaimReplaced, sentence, evidence);
            let purpose = "if this claim is to have what is on that volume";
            Some(reuse::free(world, of, cause, "/spec/claimRef/uid", purpose))
        }
        Misfit::Taken(_) | Misfit::Unlike(_) => None,
    }
}
