//! Volumes whose claim is gone.

use crate::{
    objects::managed_by::RELEASER_LABEL,
    why::{
        Cause, Code, Evidence, Look, Object, World,
        explain::{claim, events, reuse, volumes::lacking},
        read::{PersistentVolume, PersistentVolumeClaim},
    },
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

/// Why it is not available, and not gone.
pub(super) fn causes(world: &World, object: &Object, volume: &PersistentVolume) -> Vec<Cause> {
    let spec = volume.spec.clone().unwrap_or_default();
    if spec.persistent_volume_reclaim_policy.as_deref() != Some("Retain") {
        return not_deleted(world, object, volume).into_iter().collect();
    }
    let reference = spec.claim_ref.unwrap_or_default();
    let (namespace, name) = (
        reference.namespace.clone().unwrap_or_default(),
        reference.name.clone().unwrap_or_default(),
    );
    let one = match world.get::<PersistentVolumeClaim>(&namespace, &name) {
        Look::Found(other) if other.uid() != reference.uid => {
            replaced(world, object, volume, &other, &reference)
        }
        // The binder is about to say so.
        Look::Found(_) => return Vec::new(),
        Look::Absent => retained(world, object, volume, &reference),
        Look::Unread => return Vec::new(),
    };
    vec![one]
}

/// Delete, for which a provisioner is responsible.
fn not_deleted(world: &World, object: &Object, volume: &PersistentVolume) -> Option<Cause> {
    let failed = events::latest(world, object, "VolumeFailedDelete")?;
    let status = volume.status.clone().unwrap_or_default();
    let reported = failed.as_ref().map(events::sentence);
    let why = reported.or(status
        .message
        .filter(|message| !message.is_empty())
        .map(|message| format!("{}.", message.trim_end_matches('.'))));
    let why = why.unwrap_or_else(|| "its provisioner reports nothing.".to_owned());
    let since = status.last_phase_transition_time.map(|time| time.0);
    let sentence = format!(
        "The volume's claim is gone and its policy is Delete, but what is behind it is still to be deleted: {why}"
    );
    let evidence = Evidence::new(object.to_string(), "status.phase").since(since);
    Some(Cause::new(Code::StorageNotDeleted, sentence, evidence).run(
        object.describe(),
        "to see which driver it is of, and then whether its provisioner runs",
    ))
}

fn replaced(
    world: &World,
    object: &Object,
    volume: &PersistentVolume,
    other: &PersistentVolumeClaim,
    old: &ObjectReference,
) -> Cause {
    let name = format!(
        "{}/{}",
        other.namespace().unwrap_or_default(),
        other.name_any()
    );
    let uid = old.uid.as_deref().unwrap_or_default();
    let state = claim::state(other);
    let has = match state {
        "Bound" => "has another volume".to_owned(),
        "Pending" => "is not the one that had this volume".to_owned(),
        _ => format!("is {state}"),
    };
    let sentence = format!(
        "The volume was the claim {name}'s, which was deleted (its uid was {uid}). The claim of that name that there is now {has}: a volume is \
         never bound to a new claim of the same name."
    );
    let evidence = Evidence::new(object.to_string(), "spec.claimRef.uid");
    let specs = volume.spec.as_ref().zip(other.spec.as_ref());
    let lacking = specs.and_then(|(has, wants)| lacking(has, wants));
    if state != "Pending" || lacking.is_some() {
        let lacking = lacking.map_or_else(String::new, |how| format!(" This volume {how}."));
        let sentence = format!("{sentence}{lacking}");
        return Cause::new(Code::ClaimReplaced, sentence, evidence).run(
            object.describe(),
            "to decide what to do with it: its policy is Retain, so it is kept until an administrator decides",
        );
    }
    let cause = Cause::new(Code::ClaimReplaced, sentence, evidence);
    let purpose = "if the new claim, which has no volume yet, is to have what is on this one";
    reuse::free(world, volume, cause, "/spec/claimRef/uid", purpose)
}

fn retained(
    world: &World,
    object: &Object,
    volume: &PersistentVolume,
    old: &ObjectReference,
) -> Cause {
    let name = format!(
        "{}/{}",
        old.namespace.as_deref().unwrap_or_default(),
        old.name.as_deref().unwrap_or_default()
    );
    let status = volume.status.as_ref();
    let since = status
        .and_then(|status| status.last_phase_transition_time.as_ref())
        .map(|time| time.0);
    let evidence =
        Evidence::new(object.to_string(), "spec.persistentVolumeReclaimPolicy").since(since);
    let sentence = format!(
        "The volume belonged to the claim {name}, which is deleted, and its policy is Retain: its data is kept until an administrator decides."
    );
    if let Some(id) = volume.labels().get(RELEASER_LABEL) {
        let sentence = format!(
            "{sentence} Volume Warden's pv-releaser with the controller id {id} makes it available again, once no node has it attached."
        );
        return Cause::new(Code::Retained, sentence, evidence).run(
            object.describe(),
            "to see what pv-releaser says, if that lasts",
        );
    }
    let sentence = format!(
        "{sentence} Labelled {RELEASER_LABEL}=<controller id>, it is pv-releaser's to make available again."
    );
    let cause = Cause::new(Code::Retained, sentence, evidence);
    let purpose =
        "only if whichever claim comes next may see what is on it; it makes the volume Available";
    reuse::free(world, volume, cause, "/spec/claimRef", purpose)
}
