//! Decides whether a user may give a volume whose claim is deleted to another claim, by removing
//! its `claimRef` or the uid in it, and what the user has to do first.
//!
//! A claim that is bound to storage which is being deleted, or that another node still writes to,
//! loses data; a claim that waits does not. So the command that changes `claimRef` is printed only
//! if the volume is Released, its policy is Retain and is known to have been Retain when it was
//! released, it is not being deleted and not in the trash, no VolumeAttachment names it, and no
//! other volume has the same data. The command fails if the volume has changed since it was read.

mod first;

use crate::{
    objects::reuse::CLAIM_NAMESPACE,
    why::{Cause, LiveReads, Object, read::PersistentVolume},
};
use first::{before_free, before_hand_over, in_trash, not_released, to_be_deleted};
use json_patch::jsonptr::PointerBuf;
use kube::ResourceExt;
use serde_json::{Value, json};

/// Adds the next step to `cause`. If another claim may get the volume safely, the step removes the
/// field `path` from the volume, and `purpose` says when the user should do so. Otherwise the step
/// is the one that is required before, with its reason.
pub(super) fn free(
    reads: &LiveReads,
    volume: &PersistentVolume,
    cause: Cause,
    path: &str,
    purpose: &str,
) -> Cause {
    let command = patch(volume, &removals(volume, path));
    after_required(reads, volume, cause, (command, purpose))
}

/// Adds this step to `cause` or, if one is required before any claim may be bound to the volume,
/// that step with its reason.
pub(super) fn after_required(
    reads: &LiveReads,
    volume: &PersistentVolume,
    cause: Cause,
    (command, purpose): (String, &str),
) -> Cause {
    match before_free(reads, volume) {
        None => cause.run(command, purpose),
        Some(first) => first.added_to(cause),
    }
}

/// Adds the next step to `cause`, for a parked volume that no claim gets: it sets the `claimRef` to
/// a claim, or is the one that is required before, with its reason.
pub(super) fn hand_over(reads: &LiveReads, volume: &PersistentVolume, cause: Cause) -> Cause {
    if let Some(first) = before_hand_over(reads, volume) {
        return first.added_to(cause);
    }
    let path = "/spec/claimRef";
    let reserve = json!({"op": "add", "path": path,
        "value": {"namespace": "NAMESPACE", "name": "NAME"}});
    let changes = [&removals(volume, path)[..], &[reserve]].concat();
    cause.run(
        patch(volume, &changes),
        "only if the claim NAME of the namespace NAMESPACE may see the data",
    )
}

/// Adds the next step to `cause` if the volume is in the trash or purged: the command that restores
/// its data, if that is possible. None otherwise.
pub(super) fn of_trash(
    reads: &LiveReads,
    volume: &PersistentVolume,
    cause: &Cause,
) -> Option<Cause> {
    let first = in_trash(reads, volume)?;
    Some(first.added_to(cause.clone()))
}

/// Returns why the data of a volume with the policy Retain may be deleted already, as a sentence;
/// none if the policy was Retain when the volume was Released.
pub(super) fn doubt(volume: &PersistentVolume) -> Option<String> {
    not_released(volume).map(|step| step.why)
}

/// Returns the removals of the field and, if the volume has one, of the record of pv-releaser: with
/// it, the volume would be parked again for the earlier namespace of its claim.
fn removals(volume: &PersistentVolume, path: &str) -> Vec<Value> {
    let recorded = volume.annotations().contains_key(CLAIM_NAMESPACE);
    let annotation = PointerBuf::from_tokens(["metadata", "annotations", CLAIM_NAMESPACE]);
    let record = recorded.then(|| annotation.to_string());
    let paths = record.into_iter().chain([path.to_owned()]);
    paths
        .map(|path| json!({"op": "remove", "path": path}))
        .collect()
}

/// Adds the next step that saves the data of a volume which is Bound and being deleted: to set the
/// policy Retain or, if it is Retain, to save the volume's manifest. With this policy, the storage
/// stays when the volume is deleted after its claim.
pub(super) fn rescue(volume: &PersistentVolume, cause: Cause) -> Cause {
    if let Some(first) = to_be_deleted(volume) {
        return first.added_to(cause);
    }
    let cause = cause.adding(
        "Its policy is Retain, so its storage stays when the volume is deleted with its claim.",
    );
    let (arguments, name) = (object(volume).arguments(), volume.name_any());
    cause.run(
        format!("kubectl get {arguments} -o yaml > {name}.yaml"),
        "before the claim is deleted; then create the volume again from this file, without uid, \
         resourceVersion, deletionTimestamp and the uid in claimRef, and the claim again",
    )
}

/// The command that applies the changes, and fails if the volume has changed since it was read.
fn patch(volume: &PersistentVolume, changes: &[Value]) -> String {
    let version = volume.resource_version().unwrap_or_default();
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    let operations = [&[test], changes].concat();
    object(volume).patch(&json!(operations))
}

fn object(volume: &PersistentVolume) -> Object {
    Object::volume(&volume.name_any())
}
