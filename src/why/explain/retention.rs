//! Explains what happens to a claim of a StatefulSet: its retention policy, and the owner
//! references of the claim.

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
use std::sync::Arc;

/// The cause that kube-controller-manager and Volume Warden both manage the claim, or else the
/// cause that says whether the claim is kept or deleted with its StatefulSet. Empty if no
/// StatefulSet that creates this claim could be read.
pub(super) fn causes(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Vec<Cause> {
    if let Some(both) = both_active(world, object, claim) {
        return vec![both];
    }
    by_policy(world, object, claim).into_iter().collect()
}

/// Whether no object with the name and uid of the owner exists. None if the owner could not be
/// read, or is neither a StatefulSet nor a Pod.
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

fn is_other<K: ResourceExt>(look: Look<Arc<K>>, uid: &str) -> Option<bool> {
    match look {
        Look::Found(found) => Some(found.uid().as_deref() != Some(uid)),
        Look::Absent => Some(true),
        Look::Unread => None,
    }
}

/// The cause that the garbage collector deletes the claim, because none of its owners exists. None
/// if the claim has no owner, or if any owner exists or could not be checked.
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
    // The last reference is removed first, so that the indexes of the others stay as they were
    // read.
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
        object.patch(&patch),
        "immediately, if the claim is to be kept: the command removes the references to the owners \
         that do not exist, and an existing StatefulSet writes its own reference again",
    ))
}

/// The StatefulSet that creates claims with this name, and the ordinal in the name.
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
        return Some(out_of_range(
            world,
            object,
            claim,
            (name.as_str(), &set),
            ordinal,
        ));
    }
    let (code, fate) = match policy.when_deleted {
        Policy::Retain => (
            Code::KeptByPolicy,
            "is kept when the StatefulSet is deleted",
        ),
        Policy::Delete => (Code::DeletedByPolicy, "is deleted with the StatefulSet"),
    };
    let scaled = match policy.when_scaled {
        Policy::Retain => "is kept",
        Policy::Delete => "is deleted",
    };
    let sentence = format!(
        "The claim of the StatefulSet {name} {fate} (whenDeleted: {}), and {scaled} when its pod is removed by scaling down (whenScaled: {}).",
        policy.when_deleted.name(),
        policy.when_scaled.name()
    );
    let evidence = Evidence::new(
        set_object.to_string(),
        "spec.persistentVolumeClaimRetentionPolicy",
    );
    Some(
        Cause::new(code, sentence, evidence)
            .wait("the retention policy of the StatefulSet decides"),
    )
}

/// The cause for a claim whose ordinal is out of the range of the StatefulSet.
fn out_of_range(
    world: &World,
    object: &Object,
    claim: &PersistentVolumeClaim,
    (name, set): (&str, &objects::StatefulSet),
    ordinal: u32,
) -> Cause {
    let pod = format!("{name}-{ordinal}");
    let look = world.get::<Pod>(object.namespace_name(), &pod);
    let evidence = Evidence::new(object.to_string(), "metadata.ownerReferences");
    let owners = claim.owner_references();
    if let Some(after) = deleted_after(world, object, owners, (set, &pod), &look) {
        let sentence = format!(
            "The ordinal {ordinal} of the StatefulSet {name} is out of range. The claim is deleted \
             after {after}."
        );
        return Cause::new(Code::DeletedByPolicy, sentence, evidence)
            .wait("the retention policy of the StatefulSet decides");
    }
    let owned = owners.iter().any(|owner| set.uid == owner.uid);
    let (code, fate) = if owned {
        (
            Code::DeletedByPolicy,
            "is deleted with the StatefulSet, which owns it",
        )
    } else {
        (
            Code::KeptByPolicy,
            "is kept, because the StatefulSet does not own it",
        )
    };
    // The present policy does not matter: the owner references of the claim were written when its
    // pod was removed.
    let sentence = match look {
        Look::Absent => format!(
            "The StatefulSet {name} has no pod {ordinal} any more. The claim was kept when that pod \
             was removed by scaling down, and {fate}."
        ),
        Look::Found(_) | Look::Unread => format!(
            "The ordinal {ordinal} of the StatefulSet {name} is out of range. The claim {fate}."
        ),
    };
    Cause::new(code, sentence, evidence).wait("a new pod with that ordinal uses the claim again")
}

/// Returns what the claim is deleted after: its pod, if that owns it or will own it; none if the
/// deletion of its pod does not delete it.
fn deleted_after(
    world: &World,
    object: &Object,
    owners: &[OwnerReference],
    (set, pod): (&objects::StatefulSet, &str),
    look: &Look<Arc<Pod>>,
) -> Option<String> {
    let is_pod = |owner: &OwnerReference| {
        owner.api_version == "v1" && owner.kind == "Pod" && owner.name == pod
    };
    // The garbage collector removes a reference to a pod that does not exist.
    let owns =
        |owner: &OwnerReference| is_pod(owner) && is_dead(world, object, owner) != Some(true);
    if owners.iter().any(owns) {
        return Some(match owners.len() {
            1 => format!("its pod {pod}, which owns it"),
            _ => format!("its pod {pod} and its other owners"),
        });
    }
    let Look::Found(found) = look else {
        return None;
    };
    let will_own = found.rules.stateful_set.as_ref() == Some(&set.uid)
        && set.retention.unwrap_or_default().when_scaled == Policy::Delete
        && owners.iter().all(|owner| set.uid == owner.uid);
    will_own.then(|| format!("its pod {pod}, once that pod owns it (whenScaled: Delete)"))
}

/// The cause that kube-controller-manager has written the claim's owner references while Volume
/// Warden's pvc-retention runs; none otherwise, or if the Leases could not be read.
fn both_active(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Option<Cause> {
    let path = ["f:metadata", "f:ownerReferences"];
    let writer = writers::writer(&claim.metadata, &path)?;
    if writer.manager.as_deref() != Some("kube-controller-manager") {
        return None;
    }
    let lease = wardens::at_work(world, &PvcRetention)?;
    let sentence = format!(
        "kube-controller-manager has written the claim's owner references, and Volume Warden's pvc-retention is running too (Lease {}/{}): both \
         manage the claims of StatefulSets.",
        lease.namespace().unwrap_or_default(),
        lease.name_any()
    );
    let since = writer.time.as_ref().map(|time| time.0);
    let evidence = Evidence::new(object.to_string(), "metadata.managedFields").since(since);
    Some(Cause::new(Code::BothActive, sentence, evidence).run(
        format!(
            "kubectl get {} -o yaml --show-managed-fields",
            object.arguments()
        ),
        "to see which fields of the claim kube-controller-manager and Volume Warden wrote. They \
         do not harm each other, and nothing has to be done. To use only one, run Volume Warden \
         without pvc-retention: since Kubernetes 1.32, that controller of Kubernetes cannot be \
         disabled",
    ))
}
