//! Translates the decisions about a volume into JSON patch operations. A patch of a stored object
//! also tests its uid and `resourceVersion`, see `cluster`.

use crate::objects::{
    Claim, CompactText, ObjectName, Volume,
    patch::{add, add_at, remove},
    trash::{OriginalPolicy, PURGE, TRASH, TrashRecord, UNDELETE_TOUCHED},
    volume::{DELETE, RETAIN},
};
use json_patch::PatchOperation;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

const POLICY: [&str; 2] = ["spec", "persistentVolumeReclaimPolicy"];
const CLAIM_REF: [&str; 2] = ["spec", "claimRef"];

/// Sets the policy Retain and writes the record. A request to purge the data of another claim is
/// removed.
pub fn record(volume: &Volume, record: &TrashRecord) -> Vec<PatchOperation> {
    let policy = (!volume.retains()).then(|| add_at(&POLICY, json!(RETAIN)));
    policy
        .into_iter()
        .chain([annotate(volume, record)])
        .chain(without_purge(volume, Some(&record.claim.uid)))
        .collect()
}

/// Restores the original policy of the volume, and removes the record and a request to purge. The
/// policy of a volume that had Retain stays: Volume Warden has not changed it, so if it is another
/// one now, an administrator set it.
pub fn disable(volume: &Volume, record: &TrashRecord) -> Vec<PatchOperation> {
    let changed = record.policy == OriginalPolicy::Delete;
    let policy = changed.then(|| add_at(&POLICY, json!(DELETE)));
    policy
        .into_iter()
        .chain([remove(&["annotations", TRASH])])
        .chain(without_purge(volume, None))
        .collect()
}

/// Records when the claim was deleted.
pub fn move_to_trash(volume: &Volume, record: &TrashRecord, now: Timestamp) -> Vec<PatchOperation> {
    let deleted = TrashRecord {
        deleted_at: Some(now),
        ..record.clone()
    };
    vec![annotate(volume, &deleted)]
}

/// Reserves the volume for the claim: its `claimRef` gets no uid, so only a claim of this name can
/// be bound to it. A request to purge is removed: it must not delete the data if the claim cannot
/// be bound.
pub fn reserve(
    volume: &Volume,
    record: &TrashRecord,
    (claim, uid): (&ObjectName, &CompactText),
    now: Timestamp,
) -> Vec<PatchOperation> {
    let reserved = TrashRecord {
        reserved_at: Some(now),
        reserved_for: Some(uid.to_string()),
        ..record.clone()
    };
    let mut operations = vec![
        add_at(&CLAIM_REF, claim_ref(&claim.namespace, &claim.name, None)),
        annotate(volume, &reserved),
    ];
    operations.extend(without_purge(volume, None));
    operations
}

/// Sets the `claimRef` of a volume in the trash to the claim with this uid, so that no other claim
/// can be bound to it. A request to purge is removed.
pub fn give(volume: &Volume, claim: &ObjectName, uid: &str) -> Vec<PatchOperation> {
    let reference = claim_ref(&claim.namespace, &claim.name, Some(uid));
    let given = add_at(&CLAIM_REF, reference);
    let purge = without_purge(volume, None);
    [given].into_iter().chain(purge).collect()
}

/// Returns a reserved volume to the trash: its `claimRef` names the deleted claim again.
pub fn return_to_trash(volume: &Volume, returned: &TrashRecord) -> Vec<PatchOperation> {
    let TrashRecord { claim, .. } = returned;
    vec![
        add_at(
            &CLAIM_REF,
            claim_ref(&claim.namespace, &claim.name, Some(&claim.uid)),
        ),
        annotate(volume, returned),
    ]
}

/// Sets the policy Delete, and adds the recorded finalizers, without which a provisioner would
/// leave the data behind if the volume were deleted meanwhile.
pub fn purge(volume: &Volume, record: &TrashRecord) -> Vec<PatchOperation> {
    let mut finalizers: Vec<&str> = volume.finalizers.iter().map(|each| &**each).collect();
    for finalizer in &record.finalizers {
        if !finalizers.contains(&finalizer.as_str()) {
            finalizers.push(finalizer);
        }
    }
    vec![
        add_at(&POLICY, json!(DELETE)),
        add(&["finalizers"], json!(finalizers)),
    ]
}

/// Changes an annotation of the claim, which triggers another sync by the volume binder.
pub fn touch(claim: &Claim, now: Timestamp) -> Vec<PatchOperation> {
    let (key, value) = (UNDELETE_TOUCHED, now.to_string());
    vec![if claim.annotated {
        add(&["annotations", key], json!(value))
    } else {
        add(&["annotations"], json!({key: value}))
    }]
}

fn annotate(volume: &Volume, record: &TrashRecord) -> PatchOperation {
    if volume.annotated {
        add(&["annotations", TRASH], json!(record.json()))
    } else {
        add(&["annotations"], json!({TRASH: record.json()}))
    }
}

/// Removes a request to purge, unless it is for the claim with the uid `except`.
fn without_purge(volume: &Volume, except: Option<&str>) -> Option<PatchOperation> {
    let purge = volume
        .trash
        .as_deref()
        .and_then(|trash| trash.purge.as_deref());
    purge
        .filter(|uid| Some(*uid) != except)
        .map(|_| remove(&["annotations", PURGE]))
}

fn claim_ref(namespace: &str, name: &str, uid: Option<&str>) -> serde_json::Value {
    let mut reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name,
    });
    if let Some(uid) = uid {
        reference["uid"] = json!(uid);
    }
    reference
}
