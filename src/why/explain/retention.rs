//! Explains what happens to a claim of a StatefulSet: its retention policy, and the owner
//! references of the claim.

mod out_of_range;

use super::{controllers, quote, writers};
use crate::{
    components::pvc_retention::PvcRetention,
    objects::{
        self,
        stateful_set::{Policy, Retention, readings},
    },
    why::{
        Cause, Code, Evidence, LiveReads, Lookup, Object, Selection,
        read::{PersistentVolumeClaim, Pod, StatefulSet},
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::json;
use std::sync::Arc;

/// The cause that kube-controller-manager and Volume Warden both manage the claim, or else the
/// cause that says whether the claim is kept or deleted with its StatefulSet. Empty if no
/// StatefulSet that creates this claim could be read, or if it is not known which one does:
/// kube-controller-manager also writes the owner references of other claims, such as those of
/// ephemeral volumes.
pub(super) fn causes(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Vec<Cause> {
    let Some(creating_set) = creating_set(reads, object, claim) else {
        return Vec::new();
    };
    let both = both_active(reads, object, claim);
    vec![both.unwrap_or_else(|| by_policy(reads, object, claim, &creating_set))]
}

/// Whether no object with the name and uid of the owner exists. None if the owner could not be
/// read, or is neither a StatefulSet nor a Pod.
fn is_dead(reads: &LiveReads, object: &Object, owner: &OwnerReference) -> Option<bool> {
    let namespace = object.namespace_name();
    let group = owner.api_version.split('/').next().unwrap_or_default();
    match (group, owner.kind.as_str()) {
        ("apps", "StatefulSet") => {
            is_other(reads.get::<StatefulSet>(namespace, &owner.name), &owner.uid)
        }
        ("v1", "Pod") => is_other(reads.get::<Pod>(namespace, &owner.name), &owner.uid),
        _ => None,
    }
}

fn is_other<K: ResourceExt>(lookup: Lookup<Arc<K>>, uid: &str) -> Option<bool> {
    match lookup {
        Lookup::Found(found) => Some(found.uid().as_deref() != Some(uid)),
        Lookup::Absent => Some(true),
        Lookup::Unread => None,
    }
}

/// The cause that the garbage collector deletes the claim, because none of its owners exists. None
/// if the claim has no owner, or if any owner exists or could not be checked.
pub(super) fn dead_owner(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Option<Cause> {
    let owners = claim.owner_references();
    let first = owners.first()?;
    if !owners
        .iter()
        .all(|owner| is_dead(reads, object, owner) == Some(true))
    {
        return None;
    }
    let [kind, name, uid] = [&first.kind, &first.name, &first.uid].map(|text| quote::name(text));
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

/// A StatefulSet that creates claims with the name of the claim.
struct CreatingSet {
    name: String,
    set: objects::StatefulSet,
    /// The ordinal in the name of the claim.
    ordinal: u32,
}

impl CreatingSet {
    fn owns(&self, claim: &PersistentVolumeClaim) -> bool {
        let mut owners = claim.owner_references().iter();
        owners.any(|owner| self.set.uid == owner.uid)
    }

    /// Whether the claim has the labels that the StatefulSet sets on the claims that it creates.
    fn labels(&self, claim: &PersistentVolumeClaim) -> bool {
        let label = |key: &str| claim.labels().get(key).map(String::as_str);
        let mut labels = self.set.match_labels.iter();
        labels.all(|(key, value)| label(key) == Some(&**value))
    }
}

/// The StatefulSet of the claim. If the name of the claim can be that of claims of several
/// StatefulSets, it is that which owns the claim, or else the only one whose labels the claim has.
fn creating_set(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Option<CreatingSet> {
    let mut readings = readings(&object.name.name).peekable();
    readings.peek()?;
    let sets = reads
        .list::<StatefulSet>(object.namespace_name(), Selection::default())
        .found()?;
    let makers = readings.filter_map(|reading| {
        let set = sets.iter().find(|set| set.name_any() == reading.set)?;
        set.trimmed.makes(reading.template).then(|| CreatingSet {
            name: reading.set.to_owned(),
            set: set.trimmed.clone(),
            ordinal: reading.ordinal,
        })
    });
    let mut makers: Vec<CreatingSet> = makers.collect();
    if makers.len() > 1 {
        let owned = makers.iter().any(|creating_set| creating_set.owns(claim));
        makers.retain(|creating_set| {
            if owned {
                creating_set.owns(claim)
            } else {
                creating_set.labels(claim)
            }
        });
    }
    makers.pop().filter(|_| makers.is_empty())
}

fn by_policy(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    creating_set: &CreatingSet,
) -> Cause {
    let CreatingSet { name, set, ordinal } = creating_set;
    if !set.has(*ordinal) {
        return out_of_range::cause(reads, object, claim, (name.as_str(), set), *ordinal);
    }
    let policy = set.retention.unwrap_or_default();
    let owners = claim.owner_references().len();
    let others = owners - usize::from(creating_set.owns(claim));
    match policy.when_deleted {
        Policy::Retain if creating_set.owns(claim) => still_owned(object, name, policy, owners),
        _ => followed(object, name, policy, others),
    }
}

/// The cause that the present policy decides what happens to the claim, which has this number of
/// `others` than the StatefulSet as owners.
fn followed(object: &Object, set: &str, policy: Retention, others: usize) -> Cause {
    let (code, fate) = match (policy.when_deleted, others) {
        (Policy::Retain, _) => (
            Code::KeptByPolicy,
            "is kept when the StatefulSet is deleted",
        ),
        (Policy::Delete, 0) => (Code::DeletedByPolicy, "is deleted with the StatefulSet"),
        (Policy::Delete, _) => (
            Code::DeletedByPolicy,
            "is deleted once neither the StatefulSet nor another owner of the claim exists",
        ),
    };
    let sentence = format!(
        "The claim of the StatefulSet {set} {fate} (whenDeleted: {}), and {}.",
        policy.when_deleted.name(),
        when_scaled(policy)
    );
    let evidence = Evidence::new(
        Object::stateful_set(object.namespace_name(), set).to_string(),
        "spec.persistentVolumeClaimRetentionPolicy",
    );
    Cause::new(code, sentence, evidence).wait("the retention policy of the StatefulSet decides")
}

/// The cause that the StatefulSet owns the claim, although the present policy keeps it:
/// kube-controller-manager changes only the owner references of claims whose pod exists.
fn still_owned(object: &Object, set: &str, policy: Retention, owners: usize) -> Cause {
    let fate = match owners {
        1 => "is deleted with the StatefulSet, which owns it",
        _ => "is deleted once the StatefulSet, which owns it, and its other owners are deleted",
    };
    let sentence = format!(
        "The claim of the StatefulSet {set} {fate}, although whenDeleted is Retain. It {}.",
        when_scaled(policy)
    );
    let evidence = Evidence::new(object.to_string(), "metadata.ownerReferences");
    Cause::new(Code::DeletedByPolicy, sentence, evidence).run(
        format!(
            "kubectl get {} -o yaml --show-managed-fields",
            object.arguments()
        ),
        "to see the owner reference and which client wrote it; the claim is kept only once no owner \
         reference names the StatefulSet",
    )
}

fn when_scaled(policy: Retention) -> String {
    let fate = match policy.when_scaled {
        Policy::Retain => "is kept",
        Policy::Delete => "is deleted",
    };
    let policy = policy.when_scaled.name();
    format!("{fate} when its pod is removed by scaling down (whenScaled: {policy})")
}

/// The cause that kube-controller-manager has written the claim's owner references while Volume
/// Warden's pvc-retention runs; none otherwise, or if the Leases could not be read.
fn both_active(reads: &LiveReads, object: &Object, claim: &PersistentVolumeClaim) -> Option<Cause> {
    let path = ["f:metadata", "f:ownerReferences"];
    let writer = writers::writer(&claim.metadata, &path)?;
    if writer.manager.as_deref() != Some("kube-controller-manager") {
        return None;
    }
    let lease = controllers::held_lease(reads, &PvcRetention)?;
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
