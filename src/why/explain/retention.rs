//! What the StatefulSet that a claim was made for means to do with it, and its owners.

use super::{wardens, writers};
use crate::{
    components::pvc_retention::PvcRetention,
    objects::{
        self,
        stateful_set::{Policy, readings},
    },
    why::{
        Cause, Code, Evidence, Look, Object, Selection, World,
        read::{PersistentVolumeClaim, Pod, StatefulSet},
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::json;

/// What decides about it; nothing where no set does.
pub(super) fn causes(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Vec<Cause> {
    if let Some(both) = both_active(world, object, claim) {
        return vec![both];
    }
    by_policy(world, object, claim).into_iter().collect()
}

/// Whether the owner is not there, or another one of that name is; nothing where that is not known, or its kind is none that is known here.
fn is_dead(world: &World, object: &Object, owner: &OwnerReference) -> Option<bool> {
    let namespace = object.namespace_name();
    let group = owner.api_version.split('/').next().unwrap_or_default();
    match (group, owner.kind.as_str()) {
        ("apps", "StatefulSet") => {
            is_other(world.get::<StatefulSet>(namespace, &owner.name), &owner.uid)
        }
        ("v1", "Pod") => is_other(world.get::<Pod>(namespace, &owner.name), &owner.uid),
        _ => None,
    }
}

fn is_other<K: ResourceExt>(look: Look<std::sync::Arc<K>>, uid: &str) -> Option<bool> {
    match look {
        Look::Found(found) => Some(found.uid().as_deref() != Some(uid)),
        Look::Absent => Some(true),
        Look::Unread => None,
    }
}

/// That the garbage collector takes the claim, or has taken it: none of its owners is there. One that is would keep it.
pub(super) fn dead_owner(
    world: &World,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Option<Cause> {
    let owners = claim.owner_references();
    let first = owners.first()?;
    if !owners
        .iter()
        .all(|owner| is_dead(world, object, owner) == Some(true))
    {
        return None;
    }
    let OwnerReference {
        kind, name, uid, ..
    } = first;
    let sentence = format!(
        "The claim is owned by the {kind} {name} with the uid {uid}, which does not exist any more, as after a restore from a backup: the \
         garbage collector deletes the claim."
    );
    let evidence = Evidence::new(object.to_string(), "metadata.ownerReferences");
    let cause = Cause::new(Code::DeadOwner, sentence, evidence);
    if claim.metadata.deletion_timestamp.is_some() {
        return Some(cause.wait("a deletion cannot be undone"));
    }
    // From the last on, so that the places stay those that were read.
    let places = owners.iter().enumerate().rev();
    let patch: Vec<_> = places
        .flat_map(|(place, owner)| {
            let path = format!("/metadata/ownerReferences/{place}");
            [
                json!({"op": "test", "path": format!("{path}/uid"), "value": owner.uid}),
                json!({"op": "remove", "path": path}),
            ]
        })
        .collect();
    let patch = serde_json::Value::Array(patch);
    Some(cause.run(
        format!(
            "kubectl patch {} --type=json -p '{patch}'",
            object.arguments()
        ),
        "if the claim is to stay, and at once; a set that wants it sets its own reference again",
    ))
}

/// The set that makes claims of this name, and the ordinal.
fn set_of(world: &World, object: &Object) -> Option<(String, objects::StatefulSet, u32)> {
    let mut readings = readings(&object.name.name).peekable();
    readings.peek()?;
    let sets = world
        .list::<StatefulSet>(object.namespace_name(), Selection::default())
        .found()?;
    readings.find_map(|reading| {
        let set = sets.iter().find(|set| set.name_any() == reading.set)?;
        set.rules
            .makes(reading.template)
            .then(|| (reading.set.to_owned(), set.rules.clone(), reading.ordinal))
    })
}

fn by_policy(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Option<Cause> {
    let (name, set, ordinal) = set_of(world, object)?;
    let policy = set.retention.unwrap_or_default();
    let set_object = Object::stateful_set(object.namespace_name(), &name);
    if !set.has(ordinal) {
        return Some(scaled_away(object, claim, &name, ordinal));
    }
    let (code, fate) = match policy.when_deleted {
        Policy::Retain => (Code::KeptByPolicy, "stays when the StatefulSet is deleted"),
        Policy::Delete => (Code::DeletedByPolicy, "is deleted with the StatefulSet"),
    };
    let scaled = match policy.when_scaled {
        Policy::Retain => "stays",
        Policy::Delete => "goes",
    };
    let sentence = format!(
        "The claim of the StatefulSet {name} {fate} (whenDeleted: {}), and {scaled} when its pod is scaled away (whenScaled: {}).",
        policy.when_deleted.name(),
        policy.when_scaled.name()
    );
    let evidence = Evidence::new(
        set_object.to_string(),
        "spec.persistentVolumeClaimRetentionPolicy",
    );
    Some(Cause::new(code, sentence, evidence).wait("the policy of the set decides"))
}

/// Of what the policy says now, nothing follows for it any more: its owners were settled when it was scaled away.
fn scaled_away(object: &Object, claim: &PersistentVolumeClaim, set: &str, ordinal: u32) -> Cause {
    let mut owners = claim.owner_references().iter();
    let owned = owners.any(|owner| owner.kind == "StatefulSet" && owner.name == set);
    let (code, fate) = if owned {
        (
            Code::DeletedByPolicy,
            "is deleted with the set, which owns it",
        )
    } else {
        (
            Code::KeptByPolicy,
            "stays, because nothing that goes owns it",
        )
    };
    let sentence = format!(
        "The StatefulSet {set} has no pod {ordinal} any more. The claim was kept when that was scaled away, and {fate}."
    );
    let evidence = Evidence::new(object.to_string(), "metadata.ownerReferences");
    Cause::new(code, sentence, evidence).wait("a pod of that ordinal would use it again")
}

/// kube-controller-manager writes owner references on claims, and so does Volume Warden.
fn both_active(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Option<Cause> {
    let path = ["f:metadata", "f:ownerReferences"];
    let writer = writers::writer(&claim.metadata, &path)?;
    if writer.manager.as_deref() != Some("kube-controller-manager") {
        return None;
    }
    let lease = wardens::at_work(world, &PvcRetention)?;
    let sentence = format!(
        "kube-controller-manager has written the claim's owner references, and Volume Warden's pvc-retention is at work too (Lease {}/{}): both \
         manage the claims of StatefulSets.",
        lease.namespace().unwrap_or_default(),
        lease.name_any()
    );
    let since = writer.time.as_ref().map(|time| time.0);
    let evidence = Evidence::new(object.to_string(), "metadata.managedFields").since(since);
    Some(Cause::new(Code::BothActive, sentence, evidence).run(
        format!("kubectl get {} -o yaml --show-managed-fields", object.arguments()),
        "to see who wrote what; they do not harm each other, but one of them is enough: leave out pvc-retention, or switch off the feature \
         gate StatefulSetAutoDeletePVC in kube-controller-manager",
    ))
}
