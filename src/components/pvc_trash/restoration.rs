//! What a claim gets that requests the data of a deleted one.

use super::{
    recorded::{record_if_deleted, record_in_trash},
    refusals::{ambiguous, claim_exists, not_in_trash_yet, unbindable, unknown, unordered},
};
use crate::{
    admission::Answer,
    objects::{
        ObjectName, Volume,
        deletion_order::{Deletion, latest},
        fit::requested as requested_storage,
        patch::{add_at, remove},
        trash::{RecordedClaim, TrashRecord},
        undelete_request::{UNDELETE, UndeleteRequest},
        volume::Phase,
    },
};
use json_patch::PatchOperation;
use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use kube::api::ObjectMeta;
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

/// Returns which of these volumes the claim `creating` gets, with its record, or its refusal. Only
/// claims of the namespace with this uid count, and of those with one name the one that was deleted
/// last. If its volume is not in the trash, or the uid of its namespace is not known, the claim
/// gets no other one instead.
pub(super) fn requested_volume<'a>(
    found: &'a [(ObjectName, Arc<Volume>)],
    namespace_uid: Option<&str>,
    requested: &str,
    creating: &ObjectName,
) -> Result<(&'a ObjectName, &'a Volume, &'a TrashRecord), Answer> {
    let (request, namespace) = (UndeleteRequest::parse(requested), &*creating.namespace);
    let is_own = |record: &TrashRecord| record.is_of(namespace_uid);
    let is_unknown = |record: &TrashRecord| {
        let claim = &record.claim;
        request.claim() == Some(&*claim.name)
            && claim.namespace == namespace
            && claim.namespace_uid.is_none()
    };
    let possible = found.iter().filter_map(|(name, volume)| {
        let record = record_if_deleted(volume)?;
        (is_unknown(record) || is_own(record)).then_some((name, &**volume, record))
    });
    let possible: Vec<_> = possible.collect();
    let mut own = possible.iter().filter(|(.., record)| is_own(record));
    let named = own
        .clone()
        .find(|(name, ..)| request.volume() == Some(&*name.name));
    let last = || {
        latest(&possible, |(_, volume, record)| {
            Deletion::of(volume, record)
        })
    };
    let (name, volume, record) = match named.map_or_else(last, |named| Ok(Some(named))) {
        Ok(Some(chosen)) if is_own(chosen.2) => *chosen,
        Err(two) if two.iter().all(|(.., record)| is_own(record)) => {
            return Err(unordered(requested, two.map(|(name, ..)| &*name.name)));
        }
        _ => return Err(unknown(requested, namespace)),
    };
    let other = |deleted: &str| request.claim() == Some(deleted) && record.claim.name != deleted;
    if own.any(|(_, _, found)| other(&found.claim.name)) {
        return Err(ambiguous(requested));
    }
    if record_in_trash(volume).is_none() {
        let bound = volume.claim_ref.as_ref();
        let bound = bound.filter(|_| volume.phase == Phase::Bound);
        return Err(if bound.is_some_and(|bound| bound.name == *creating) {
            claim_exists(requested, creating)
        } else {
            not_in_trash_yet(requested)
        });
    }
    if record.is_restorable() {
        Ok((name, volume, record))
    } else {
        Err(unbindable(requested))
    }
}

/// Returns where the data of the claim comes from, if that is not the trash: the annotation is then
/// a copy, in a backup or in the manifest of a claim that was restored before.
pub(super) fn other_origin(
    claim: &PersistentVolumeClaimSpec,
    found: &[(ObjectName, Arc<Volume>)],
) -> Option<&'static str> {
    if claim.data_source.is_some() || claim.data_source_ref.is_some() {
        return Some("a data source");
    }
    let named = named_volume(claim)?;
    let is_found = found.iter().any(|(name, _)| *name.name == *named);
    (!is_found).then_some("the name of another volume")
}

pub(super) fn named_volume(claim: &PersistentVolumeClaimSpec) -> Option<&str> {
    claim.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// Removes the request from a claim that gets its data elsewhere.
pub(super) fn without_request(origin: &str) -> Answer {
    Answer::Patch {
        operations: vec![remove(&["annotations", UNDELETE])],
        what: format!("remove the annotation {UNDELETE}"),
        warnings: vec![format!(
            "the annotation {UNDELETE} was removed, because the claim has {origin}: a claim that \
             restores a deleted one has no data source, and names no other volume"
        )],
    }
}

/// Sets the volume, its class and its mode in the claim, and adds what the claim leaves out, such
/// as access modes and size.
pub fn restore(
    claim: &PersistentVolumeClaimSpec,
    name: &ObjectName,
    volume: &Volume,
) -> Vec<PatchOperation> {
    let mut operations = Vec::new();
    if *claim == PersistentVolumeClaimSpec::default() {
        // The object may have no `spec`. An empty one stays empty.
        operations.push(add_at(&["spec"], json!({})));
    }
    operations.push(add_at(&["spec", "volumeName"], json!(&*name.name)));
    operations.push(add_at(&["spec", "storageClassName"], json!(&*volume.class)));
    let trash = volume.trash.as_deref();
    // The API server has already set the default mode, which looks like a requested one. So the
    // mode of the volume replaces it.
    if let Some(mode) = trash.and_then(|trash| trash.mode.as_deref()) {
        operations.push(add_at(&["spec", "volumeMode"], json!(mode)));
    }
    let attributes = trash.and_then(|trash| trash.attributes_class.as_deref());
    if let Some(class) = attributes.filter(|_| claim.volume_attributes_class_name.is_none()) {
        let path = ["spec", "volumeAttributesClassName"];
        operations.push(add_at(&path, json!(class)));
    }
    if let Some(trash) = trash.filter(|_| claim.access_modes.is_none()) {
        operations.push(add_at(
            &["spec", "accessModes"],
            json!(&trash.access_modes[..]),
        ));
    }
    if let Some(trash) = trash.filter(|_| requested_storage(claim).is_none()) {
        let request = json!({"requests": {"storage": &*trash.capacity}});
        operations.push(add_at(&["spec", "resources"], request));
    }
    operations
}

/// Adds the recorded labels of the deleted claim to a claim without labels, and its annotations to
/// a claim whose only annotation is the request: an author who writes labels or annotations gets
/// only those.
pub(super) fn restore_metadata(claim: &ObjectMeta, deleted: &RecordedClaim) -> Vec<PatchOperation> {
    let number = |texts: &Option<BTreeMap<_, _>>| texts.as_ref().map_or(0, BTreeMap::len);
    let mut operations = Vec::new();
    let labels = deleted.kept_labels();
    if number(&claim.labels) == 0 && !labels.is_empty() {
        operations.push(add_at(&["metadata", "labels"], json!(labels)));
    }
    if number(&claim.annotations) == 1 {
        let kept = deleted.kept_annotations().into_iter();
        operations.extend(
            kept.map(|(key, value)| add_at(&["metadata", "annotations", key], json!(value))),
        );
    }
    operations
}
