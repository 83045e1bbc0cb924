//! Tests of what the patches of pvc-trash change on an object.

use super::{FINALIZER, claim, record, recorded, volume};
use crate::{
    components::pvc_trash::{
        patch,
        restoration::{restore, restore_metadata},
    },
    objects::{
        ObjectName, Volume,
        fit::ClaimRequirementsWire,
        trash::{PURGE, TRASH, TrashRecord, UNDELETE, UNDELETE_TOUCHED},
    },
};
use json_patch::PatchOperation;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:00:00Z";

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

fn read(volume: &Volume) -> &TrashRecord {
    let trash = volume.trash.as_deref().expect("an annotation");
    trash.record.as_ref().expect("a record")
}

/// The object after the patch.
fn applied(object: Value, operations: &[PatchOperation]) -> Value {
    let mut object = object;
    json_patch::patch(&mut object, operations).expect("applies");
    object
}

fn metadata_of(claim: &Value) -> ObjectMeta {
    serde_json::from_value(claim.clone()).expect("metadata")
}

fn object(policy: &str, annotations: Value) -> Value {
    json!({
        "metadata": {"annotations": annotations, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"persistentVolumeReclaimPolicy": policy,
            "claimRef": {"namespace": "ns", "name": "data", "uid": "1", "resourceVersion": "5"}},
    })
}

fn annotation(object: &Value) -> Value {
    let text = object["metadata"]["annotations"][TRASH]
        .as_str()
        .expect("a record");
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_record_comes_with_the_policy_retain() {
    let before = volume(json!({}));
    let wanted: TrashRecord = serde_json::from_value(record("1", json!({}))).expect("a record");
    let operations = patch::record(&before, &wanted);
    let after = applied(json!({"metadata": {}, "spec": {}}), &operations);
    assert_eq!(after["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(annotation(&after), record("1", json!({})));
    let annotated = volume(json!({"metadata": {"annotations": {"a": "b"}}}));
    let after = applied(
        object("Delete", json!({"a": "b"})),
        &patch::record(&annotated, &wanted),
    );
    assert_eq!(after["metadata"]["annotations"]["a"], "b");
}

#[test]
fn disabling_gives_the_original_policy_back() {
    for policy in ["Delete", "Retain"] {
        let text = record("1", json!({"policy": policy}));
        let mut before = recorded("Bound", &text);
        before.trash.as_mut().expect("a record").purge = Some("1".into());
        let annotations = json!({TRASH: text.to_string(), PURGE: "1", "a": "b"});
        let operations = patch::disable(&before, read(&before));
        let after = applied(object("Retain", annotations), &operations);
        assert_eq!(after["spec"]["persistentVolumeReclaimPolicy"], policy);
        assert_eq!(after["metadata"]["annotations"], json!({"a": "b"}));
    }
}

/// Volume Warden never changed the policy of this volume.
#[test]
fn disabling_keeps_the_policy_that_an_administrator_set() {
    let text = record("1", json!({"policy": "Retain"}));
    let operations = patch::disable(&recorded("Bound", &text), read(&recorded("Bound", &text)));
    let after = applied(
        object("Delete", json!({TRASH: text.to_string()})),
        &operations,
    );
    assert_eq!(after["spec"]["persistentVolumeReclaimPolicy"], "Delete");
}

#[test]
fn a_purge_gives_the_finalizers_back() {
    let text = record("1", json!({"deletedAt": NOW}));
    let mut before = recorded("Released", &text);
    before.finalizers = vec!["kubernetes.io/pv-protection".into()].into();
    let operations = patch::purge(&before, read(&before));
    let after = applied(
        object("Retain", json!({TRASH: text.to_string()})),
        &operations,
    );
    assert_eq!(after["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(
        after["metadata"]["finalizers"],
        json!(["kubernetes.io/pv-protection", FINALIZER])
    );
    assert_eq!(annotation(&after), text);
}

/// Only a claim of that name may be bound to a reserved volume, and the policy stays Retain: the
/// phase of the volume is still Released.
#[test]
fn a_volume_is_reserved_and_put_back() {
    let text = record("1", json!({"deletedAt": NOW}));
    let mut before = recorded("Released", &text);
    before.trash.as_mut().expect("a record").purge = Some("1".into());
    let claim = ObjectName::new("ns", "again");
    let operations = patch::reserve(&before, read(&before), (&claim, &"2".into()), now());
    let annotations = json!({TRASH: text.to_string(), PURGE: "1"});
    let after = applied(object("Retain", annotations), &operations);
    // A request to purge that was made before the restore is removed by the restore.
    assert_eq!(after["metadata"]["annotations"][PURGE], Value::Null);
    let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": "ns", "name": "again"});
    assert_eq!(after["spec"]["claimRef"], reference);
    assert_eq!(after["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    let reserved = record(
        "1",
        json!({"deletedAt": NOW, "reservedAt": NOW, "reservedFor": "2"}),
    );
    assert_eq!(annotation(&after), reserved);

    let reserved = recorded("Available", &reserved);
    let returned = TrashRecord {
        reserved_at: None,
        reserved_for: None,
        ..read(&reserved).clone()
    };
    let back = applied(after, &patch::return_to_trash(&reserved, &returned));
    let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": "ns", "name": "data", "uid": "1"});
    assert_eq!(back["spec"]["claimRef"], reference);
    assert_eq!(annotation(&back), text);
}

#[test]
fn a_claim_that_restores_data_gets_what_the_volume_has() {
    let text = record("1", json!({"deletedAt": NOW}));
    let block = volume(json!({
        "metadata": {"annotations": {TRASH: text.to_string()}}, "status": {"phase": "Released"},
        "spec": {"volumeMode": "Block", "volumeAttributesClassName": "gold",
            "accessModes": ["ReadWriteMany"], "capacity": {"storage": "5Gi"}, "storageClassName": "fast"},
    }));
    let name = ObjectName::cluster_scoped("pv");
    let restored = |claim: Value| {
        let read: ClaimRequirementsWire = serde_json::from_value(claim.clone()).expect("a claim");
        let operations = restore(&read.spec, &name, &block);
        applied(claim, &operations)["spec"].clone()
    };
    let wanted = json!({
        "volumeName": "pv", "storageClassName": "fast", "volumeMode": "Block",
        "volumeAttributesClassName": "gold", "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "5Gi"}},
    });
    assert_eq!(restored(json!({"metadata": {}})), wanted);
    assert_eq!(restored(json!({"metadata": {}, "spec": {}})), wanted);
    // The API server has set the default volume mode before it calls the webhook.
    let defaulted = json!({"metadata": {}, "spec": {"volumeMode": "Filesystem", "accessModes": ["ReadWriteMany"]}});
    assert_eq!(restored(defaulted), wanted);
    let own = json!({"metadata": {}, "spec": {"volumeAttributesClassName": "silver"}});
    assert_eq!(restored(own)["volumeAttributesClassName"], "silver");
}

#[test]
fn a_claim_is_touched_with_and_without_annotations() {
    let touched = json!({UNDELETE_TOUCHED: NOW});
    let after = applied(
        json!({"metadata": {}}),
        &patch::touch(&claim(json!({})), now()),
    );
    assert_eq!(after["metadata"]["annotations"], touched);
    let annotated = claim(json!({"metadata": {"annotations": {"a": "b"}}}));
    let before = json!({"metadata": {"annotations": {"a": "b"}}});
    let after = applied(before, &patch::touch(&annotated, now()));
    assert_eq!(after["metadata"]["annotations"]["a"], "b");
}

#[test]
fn a_claim_that_leaves_them_out_gets_labels_and_annotations_back() {
    let text = record(
        "1",
        json!({"claim": {
            "labels": json!({"app": "a"}).to_string(),
            "annotations": json!({"a.b/note": "n"}).to_string(),
        }}),
    );
    let deleted = recorded("Released", &text);
    let given = |metadata: Value| {
        let operations = restore_metadata(&metadata_of(&metadata), &read(&deleted).claim);
        applied(json!({"metadata": metadata}), &operations)["metadata"].clone()
    };
    let both = json!({"labels": {"app": "a"}, "annotations": {UNDELETE: "data", "a.b/note": "n"}});
    assert_eq!(given(json!({"annotations": {UNDELETE: "data"}})), both);
    // Records of an earlier version have these keys.
    let tracked = json!({"claim": {
        "labels": json!({"app": "a", "app.kubernetes.io/instance": "a"}).to_string(),
        "annotations": json!({"a.b/note": "n", "meta.helm.sh/release-name": "r"}).to_string(),
    }});
    let tracked = recorded("Released", &record("1", tracked));
    let metadata = json!({"annotations": {UNDELETE: "data"}});
    let operations = restore_metadata(&metadata_of(&metadata), &read(&tracked).claim);
    let claim = json!({"metadata": metadata});
    assert_eq!(applied(claim, &operations)["metadata"], both);
    let own = json!({"labels": {"x": "y"}, "annotations": {UNDELETE: "data", "own": "o"}});
    assert_eq!(given(own.clone()), own);
}
