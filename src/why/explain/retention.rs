//! What the StatefulSet that a claim was made for means to do with it, and its owners.

use super::{trimmed, wardens, writers};
use crate::{
    components::Component,
    objects::{
        StatefulSet,
        stateful_set::{Policy, StatefulSetWire, readings},
    },
    why::{Cause, Code, Evidence, Look, Object, Selection, World},
};
use k8s_openapi::{
    api::{
        apps::v1 as apps,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::ResourceExt;

/// What decides about it; nothing where no set does.
pub(super) fn causes(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Vec<Cause> {
    if let Some(both) = both_active(world, object, claim) {
        return vec![both];
    }
    by_policy(world, object).into_iter().collect()
}

/// An owner that is not there, or another one of that name.
fn is_dead(world: &World, object: &Object, owner: &OwnerReference) -> bool {
    let namespace = object.namespace_name();
    match owner.kind.as_str() {
        "StatefulSet" => is_other(
            world.get::<apps::StatefulSet>(namespace, &owner.name),
            &owner.uid,
        ),
        "Pod" => is_other(world.get::<Pod>(namespace, &owner.name), &owner.uid),
        _ => false,
    }
}

fn is_other<K: ResourceExt>(look: Look<std::sync::Arc<K>>, uid: &str) -> bool {
    match look {
        Look::Found(found) => found.uid().as_deref() != Some(uid),
        Look::Absent => true,
        Look::Unread => false,
    }
}

/// That the garbage collector takes the claim, or has taken it: its owner is gone.
pub(super) fn dead_owner(
    world: &World,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Option<Cause> {
    let mut owners = claim.owner_references().iter().enumerate();
    let (place, owner) = owners.find(|(_, owner)| is_dead(world, object, owner))?;
    let OwnerReference {
        kind, name, uid, ..
    } = owner;
    let sentence = format!(
        "The claim is owned by the {kind} {name} with the uid {uid}, which does not exist any more, as after a restore from a backup: the \
         garbage collector deletes the claim."
    );
    let evidence = Evidence::new(object.to_string(), "metadata.ownerReferences");
    let path = format!("/metadata/ownerReferences/{place}");
    let patch = serde_json::json!([
        {"op": "test", "path": format!("{path}/uid"), "value": uid},
        {"op": "remove", "path": path},
    ]);
    Some(Cause::new(Code::DeadOwner, sentence, evidence).run(
        format!(
            "kubectl patch {} --type=json -p '{patch}'",
            object.arguments()
        ),
        "if the claim is to stay, and at once; a set that wants it sets its own reference again",
    ))
}

/// The set that makes claims of this name, and the ordinal.
fn set_of(world: &World, object: &Object) -> Option<(String, StatefulSet, u32)> {
    let mut readings = readings(&object.name.name).peekable();
    readings.peek()?;
    let sets = world
        .list::<apps::StatefulSet>(object.namespace_name(), Selection::default())
        .found()?;
    readings.find_map(|reading| {
        let set = sets.iter().find(|set| set.name_any() == reading.set)?;
        let kept = trimmed::<StatefulSetWire, StatefulSet>(set)?;
        kept.makes(reading.template)
            .then(|| (reading.set.to_owned(), kept, reading.ordinal))
    })
}

fn by_policy(world: &World, object: &Object) -> Option<Cause> {
    let (name, set, ordinal) = set_of(world, object)?;
    let policy = set.retention.unwrap_or_default();
    let set_object = Object::stateful_set(object.namespace_name(), &name);
    let told = |field: &str, policy: Policy, when: &str| {
        let (code, fate) = match policy {
            Policy::Retain => (Code::KeptByPolicy, "stays"),
            Policy::Delete => (Code::DeletedByPolicy, "is deleted"),
        };
        let sentence = format!(
            "The claim {fate} when {when}: {field} is {}.",
            policy.name()
        );
        let field = format!("spec.persistentVolumeClaimRetentionPolicy.{field}");
        let evidence = Evidence::new(set_object.to_string(), field);
        Cause::new(code, sentence, evidence).wait("the policy of the set decides")
    };
    let wanted = set.has(ordinal);
    Some(if wanted {
        told(
            "whenDeleted",
            policy.when_deleted,
            &format!("the StatefulSet {name} is deleted"),
        )
    } else {
        told(
            "whenScaled",
            policy.when_scaled,
            &format!("the StatefulSet {name} is scaled, as it was: it has no pod {ordinal}"),
        )
    })
}

/// kube-controller-manager writes owner references on claims, and so does Volume Warden.
fn both_active(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Option<Cause> {
    let path = ["f:metadata", "f:ownerReferences"];
    let writer = writers::writer(&claim.metadata, &path)?;
    if writer.manager.as_deref() != Some("kube-controller-manager") {
        return None;
    }
    let lease = wardens::at_work(world, Component::PvcRetention)?;
    let sentence = format!(
        "kube-controller-manager has written the claim's owner references, and Volume Warden's pvc-retention is at work too (Lease {}/{}): both \
         look after the claims of StatefulSets.",
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
