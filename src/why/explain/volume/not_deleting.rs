//! Explains volumes that are not being deleted and that have a claim, or may get a claim.

use crate::{
    components::pv_releaser::PvReleaser,
    objects::{namespace::has_opted_out, reuse::Record},
    why::{
        Answer, Cause, Code, Conclusion, Evidence, LiveReads, Lookup, Object,
        explain::{
            claim, controllers, reuse,
            volumes::{lacking, parked_for},
        },
        read::{PersistentVolume, PersistentVolumeClaim},
    },
};
use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use kube::ResourceExt;

/// Completes the answer for a volume in this phase: adds the cause that the volume does not fit the
/// claim that it is reserved for, concludes health, or says what was examined.
pub(super) fn explain(
    reads: &LiveReads,
    object: &Object,
    volume: &PersistentVolume,
    phase: &str,
    answer: Answer,
) -> Answer {
    let reference = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    let parked = parked_for(volume).filter(|_| phase == "Available");
    if let Some(record) = parked {
        return parked_volume(reads, object, volume, &record, answer);
    }
    let conclusion = match (phase, reference) {
        ("Available", None) => {
            Conclusion::healthy("any claim that the volume fits may be bound to it")
        }
        ("Bound" | "Available", Some(reference)) => {
            let (namespace, name) = (
                reference.namespace.as_deref().unwrap_or_default(),
                reference.name.as_deref().unwrap_or_default(),
            );
            match reads.get::<PersistentVolumeClaim>(namespace, name) {
                Lookup::Found(claim) if phase == "Bound" => bound(object, reference, &claim),
                Lookup::Found(claim) => match misfit(object, volume, &claim) {
                    Some(misfit) => return answer.because([misfit]),
                    None => reserved(object, &claim),
                },
                Lookup::Absent => {
                    let examined =
                        format!("the volume's claim {namespace}/{name}, which does not exist");
                    Conclusion::nothing_found(object, examined)
                }
                Lookup::Unread => Conclusion::nothing_found(
                    object,
                    "the volume, but not its claim, \
                    which could not be read",
                ),
            }
        }
        _ => Conclusion::nothing_found(object, "the phase of the volume"),
    };
    answer.concluding(conclusion)
}

/// Completes the answer for a volume that pv-releaser has parked: no claim gets it if the namespace
/// of its earlier claim was deleted.
fn parked_volume(
    reads: &LiveReads,
    object: &Object,
    volume: &PersistentVolume,
    record: &Record,
    answer: Answer,
) -> Answer {
    let namespace = &record.namespace;
    let found = match reads.get::<Namespace>("", namespace) {
        Lookup::Found(found) => Some(found),
        Lookup::Absent => None,
        Lookup::Unread => {
            let examined = format!(
                "the volume, but not the namespace {namespace}, for whose next claim it waits"
            );
            return answer.concluding(Conclusion::nothing_found(object, examined));
        }
    };
    let is_recorded = |found: &&Namespace| found.uid().as_deref() == Some(&*record.namespace_uid);
    if let Some(recorded) = found.as_deref().filter(is_recorded) {
        return answer.concluding(waiting_in(reads, object, recorded));
    }
    let again = match found {
        Some(_) => "deleted and created again",
        None => "deleted",
    };
    let sentence = format!(
        "The volume waits for the next claim of the namespace {namespace}, which was {again}, so no claim gets it."
    );
    let evidence = Evidence::new(object.to_string(), "claimRef");
    let cause = Cause::new(Code::ParkedForDeletedNamespace, sentence, evidence);
    answer.because([reuse::hand_over(reads, volume, cause)])
}

/// The conclusion for a parked volume that waits for a claim of this namespace.
fn waiting_in(reads: &LiveReads, object: &Object, namespace: &Namespace) -> Conclusion {
    let waits = format!(
        "waits for the next claim that fits it in the namespace {}",
        namespace.name_any()
    );
    let state = if namespace.metadata.deletion_timestamp.is_some() {
        "which is being deleted"
    } else if has_opted_out(&namespace.metadata) {
        "which has opted out, so no claim there gets it"
    } else if controllers::held_lease(reads, &PvReleaser).is_none() {
        "but not whether pv-releaser runs, which gives it to that claim"
    } else {
        return Conclusion::healthy(format!("the volume {waits}"));
    };
    Conclusion::nothing_found(object, format!("the volume, which {waits}, {state}"))
}

/// The conclusion for a Bound volume. It is healthy if its claim is Bound to this volume, too.
fn bound(
    object: &Object,
    reference: &ObjectReference,
    claim: &PersistentVolumeClaim,
) -> Conclusion {
    let state = claim::state(claim);
    let name = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    let is_its = reference.uid == claim.uid() && name == Some(&object.name.name);
    if is_its && state == "Bound" {
        return Conclusion::healthy("the volume and its claim are bound to each other");
    }
    let whose = if is_its {
        "the volume's claim, which"
    } else {
        "the claim that the volume names, which is not bound to this volume and"
    };
    Conclusion::nothing_found(object, format!("{whose} is {state}"))
}

/// The cause that the volume is reserved for a Pending claim that it does not fit; none otherwise.
/// If the claim and the volume name each other, Kubernetes does not compare them.
fn misfit(
    object: &Object,
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Option<Cause> {
    if claim::state(claim) != "Pending" {
        return None;
    }
    let wants = claim.spec.as_ref()?;
    if wants.volume_name.as_deref() == Some(&object.name.name) {
        return None;
    }
    let lacking = lacking(volume.spec.as_ref()?, wants)?;
    let name = Object::claim(&claim.namespace()?, &claim.name_any());
    let sentence = format!(
        "The volume is reserved for the claim {}, which cannot be bound to it: the volume {lacking}.",
        name.name
    );
    let evidence = Evidence::new(object.to_string(), "spec.claimRef");
    Some(Cause::new(Code::NoMatchingVolume, sentence, evidence).run(
        name.describe(),
        "to compare the claim with the volume; then recreate the claim, or remove the volume's claimRef: any \
         claim that the volume fits may then get it, with the data on it",
    ))
}

fn reserved(object: &Object, claim: &PersistentVolumeClaim) -> Conclusion {
    let state = claim::state(claim);
    let name = claim.name_any();
    Conclusion::nothing_found(
        object,
        format!("the claim {name} that the volume is reserved for, which is {state}"),
    )
}
