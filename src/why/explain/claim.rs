//! Explains the state of a PersistentVolumeClaim.

mod bound;
mod by_hand;
mod data_source;
mod lost;
mod pending;
mod resize;
mod terminating;

use super::{retention, reuse, volumes::Misfit};
use crate::why::{
    Answer, Cause, Code, Evidence, LiveReads, Lookup, Object,
    read::{PersistentVolume, PersistentVolumeClaim},
};
use kube::ResourceExt;

/// Explains why the claim is in its state.
pub(super) fn explain(reads: &LiveReads, object: &Object) -> Lookup<Answer> {
    let claim = reads.get::<PersistentVolumeClaim>(object.namespace_name(), &object.name.name);
    claim.map(|claim| answer(reads, object, &claim))
}

fn answer(reads: &LiveReads, object: &Object, claim: &PersistentVolumeClaim) -> Answer {
    let answer = Answer::of(object, state(claim));
    if let Some(deleted) = &claim.metadata.deletion_timestamp {
        let (chain, also) = terminating::causes(reads, object, claim);
        let answer = answer.since(Some(deleted.0)).because(chain);
        return Answer { also, ..answer };
    }
    let created = claim.creation_timestamp().map(|time| time.0);
    let answer = answer.since(created);
    if answer.state == "Bound" {
        bound::explain(reads, object, claim, answer)
    } else {
        answer.because(causes(reads, object, claim))
    }
}

/// Whether the claim is being deleted or not Bound, or has a problem: it has owners, none of which
/// exists, its finalizer is missing while the webhook does not work, or its volume is lost, being
/// deleted or not resized.
pub fn has_problem(reads: &LiveReads, object: &Object, claim: &PersistentVolumeClaim) -> bool {
    state(claim) != "Bound" || bound::problem(reads, object, claim).is_some()
}

/// The chain of causes for a claim in any state.
pub(super) fn causes(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Vec<Cause> {
    if claim.metadata.deletion_timestamp.is_some() {
        return terminating::causes(reads, object, claim).0;
    }
    if let Some(dead) = retention::dead_owner(reads, object, claim) {
        return vec![dead];
    }
    match state(claim) {
        "Bound" => bound::causes(reads, object, claim),
        "Lost" => lost::causes(reads, object, claim),
        _ => pending::causes(reads, object, claim),
    }
}

/// The causes that hold the claim, or would hold it if it were deleted now. Empty if the claim
/// would be deleted immediately, or if the pods of its namespace could not be read.
pub(super) fn held(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Vec<Cause> {
    let held = terminating::causes(reads, object, claim).0;
    let deleted = claim.metadata.deletion_timestamp.is_some();
    let holds = held
        .first()
        .is_some_and(|cause| cause.code != Code::NotInUse);
    if deleted || holds { held } else { Vec::new() }
}

/// The state of the claim in one word: its phase, or `Terminating`.
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

/// The cause that a volume which matches the claim cannot be bound to it, because it is being
/// deleted, is reserved for another claim, or belonged to an earlier claim of this name. None if
/// the volume does not match, or another claim is or was bound to it.
fn blocked_volume(reads: &LiveReads, of: &PersistentVolume, misfit: &Misfit) -> Option<Cause> {
    let volume = &of.name_any();
    let object = Object::volume(volume);
    let show = format!("kubectl get {} -o wide", object.arguments());
    match misfit {
        Misfit::Deleting(since) => {
            let sentence =
                format!("The volume {volume} is being deleted, so no claim is bound to it.");
            let evidence = Evidence::new(object.to_string(), "metadata.deletionTimestamp");
            let cause = Cause::new(Code::VolumeDeleting, sentence, evidence.since(Some(*since)));
            Some(cause.run(
                format!("volume-warden why {}", object.arguments()),
                "to see what keeps the volume; the claim needs another volume",
            ))
        }
        Misfit::Reserved(other) => {
            let sentence = format!("The volume {volume} is reserved for the claim {other}.");
            let evidence = Evidence::new(object.to_string(), "spec.claimRef");
            Some(Cause::new(Code::VolumeReserved, sentence, evidence).run(
                show,
                "to see which claim the volume is reserved for; this claim needs another volume, unless \
                 the reservation is removed",
            ))
        }
        Misfit::Former(uid) => {
            let sentence = format!(
                "The volume {volume} belonged to an earlier claim of this name (uid {uid}). Kubernetes never binds it to a new claim of the same name."
            );
            let evidence = Evidence::new(object.to_string(), "spec.claimRef.uid");
            let cause = Cause::new(Code::ClaimReplaced, sentence, evidence);
            let purpose = "if this claim is to get the data on that volume";
            Some(reuse::free(reads, of, cause, "/spec/claimRef/uid", purpose))
        }
        Misfit::Taken(_) | Misfit::Unlike(_) => None,
    }
}
