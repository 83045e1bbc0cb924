use super::*;

const LABELS: &str = "example.com/zone";

/// A volume in the trash with everything that a copy leaves out, with `changes` merged over it.
fn whole(changes: Value) -> WholeVolume {
    let record = json!({
        "policy": "Delete", "windowSeconds": 3600, "deletedAt": "2026-01-01T00:00:00Z",
        "returnedAt": "2026-01-01T00:10:00Z", "unbindable": ["7"],
        "claim": {"namespace": "ns", "name": "data", "uid": "1"},
    });
    let mut volume = json!({
        "metadata": {"name": "pv", "uid": "v", "resourceVersion": "7", "labels": {LABELS: "a"},
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "x"}],
            "finalizers": ["example.com/f"],
            "annotations": {TRASH: record.to_string(), PURGE: "1", LAST_APPLIED: "{}",
                "pv.kubernetes.io/provisioned-by": "csi.example.com"}},
        "spec": {"storageClassName": "fast", "persistentVolumeReclaimPolicy": "Retain",
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "ns", "name": "data", "uid": "1", "resourceVersion": "5"},
            "csi": {"driver": "csi.example.com", "volumeHandle": "h", "fsType": "ext4",
                "volumeAttributes": {"a": "b"}}},
        "status": {"phase": "Released"},
    });
    json_patch::merge(&mut volume, &changes);
    let wire = serde_json::from_value(volume).expect("a volume");
    WholeVolume::track(wire).expect("a volume")
}

fn record_in(manifest: &Value) -> Value {
    let text = manifest["metadata"]["annotations"][TRASH].as_str();
    serde_json::from_str(text.unwrap_or_default()).expect("a record")
}

fn copy(whole: &WholeVolume) -> SavedVolumeWire {
    let manifest = whole.manifest().expect("a manifest").to_string();
    let name = name_of("volume-warden", "v");
    serde_json::from_value(config_map(&name, &manifest)).expect("a ConfigMap")
}

#[test]
fn a_manifest_has_what_the_api_server_does_not_write() {
    let manifest = whole(json!({})).manifest().expect("a manifest");
    let metadata = &manifest["metadata"];
    let keys: Vec<_> = metadata.as_object().expect("metadata").keys().collect();
    assert_eq!(keys, ["annotations", "finalizers", "labels", "name"]);
    assert_eq!(metadata["labels"][LABELS], "a");
    assert_eq!(metadata["finalizers"], json!(["example.com/f"]));
    let annotations = metadata["annotations"].as_object().expect("annotations");
    let keys: Vec<_> = annotations.keys().collect();
    assert_eq!(keys, ["pv.kubernetes.io/provisioned-by", TRASH]);
    assert_eq!(manifest["status"], Value::Null);
    let spec = &manifest["spec"];
    assert_eq!(spec["csi"]["volumeAttributes"]["a"], "b");
    assert_eq!(spec["claimRef"]["uid"], "1");
    // It shows in which order claims of one name were deleted.
    assert_eq!(spec["claimRef"]["resourceVersion"], "5");
}

/// A window that had begun could end before the volume is created again: it would be purged at
/// once.
#[test]
fn the_window_in_a_manifest_has_not_begun() {
    let manifest = whole(json!({})).manifest().expect("a manifest");
    let expected = json!({"policy": "Delete", "windowSeconds": 3600,
        "claim": {"namespace": "ns", "name": "data", "uid": "1"}});
    assert_eq!(record_in(&manifest), expected);
}

#[test]
fn only_volumes_that_a_purge_deletes_have_a_manifest() {
    let other = json!({"policy": "Retain", "windowSeconds": 3600,
        "claim": {"namespace": "ns", "name": "data", "uid": "1"}});
    for changes in [
        json!({"metadata": {"annotations": {TRASH: null}}}),
        json!({"metadata": {"annotations": {TRASH: "{}"}}}),
        json!({"metadata": {"annotations": {TRASH: other.to_string()}}}),
        json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        json!({"spec": {"claimRef": {"uid": "2"}}}),
        json!({"spec": {"claimRef": {"uid": null}}}),
    ] {
        let whole = whole(changes.clone());
        assert_eq!(whole.manifest(), None, "{changes}");
        assert_eq!(fingerprint(&whole.volume), None, "{changes}");
    }
}

#[test]
fn a_copy_is_read_as_it_was_written() {
    let volume = whole(json!({}));
    let wire = copy(&volume);
    let read = wire.volume().expect("a volume");
    assert_eq!(read.manifest(), volume.manifest());
    let saved = SavedVolume::track(wire).expect("a copy");
    assert_eq!(
        (saved.volume_uid.clone(), &*saved.volume),
        ("v".into(), "pv")
    );
    assert_eq!(saved.fingerprint, fingerprint(&volume.volume));
    assert_eq!(saved.source.as_deref(), Some("csi.example.com h"));
    let refers = saved.references(&ObjectName::cluster_scoped("x"));
    assert_eq!(refers, [ObjectName::cluster_scoped("pv")]);
}

#[test]
fn other_config_maps_and_damaged_copies_are_distinguished() {
    let mut other = copy(&whole(json!({})));
    other.metadata.name = Some("volume-warden-seen-namespaces".to_owned());
    assert_eq!(SavedVolume::track(other), None);
    for text in ["", "{}", "no", &"x".repeat(MAX_MANIFEST + 1)] {
        let mut damaged = copy(&whole(json!({})));
        damaged.data.insert(KEY.to_owned(), text.to_owned());
        let saved = SavedVolume::track(damaged).expect("a copy");
        assert_eq!((saved.fingerprint, saved.source), (None, None), "{text}");
    }
}

#[test]
fn a_fingerprint_changes_with_what_a_repair_needs() {
    let of = |changes| fingerprint(&whole(changes).volume);
    let same = of(json!({}));
    assert!(same.is_some());
    let begun = json!({"policy": "Delete", "windowSeconds": 3600,
        "deletedAt": "2026-01-02T00:00:00Z",
        "claim": {"namespace": "ns", "name": "data", "uid": "1"}});
    for changes in [
        json!({"metadata": {"annotations": {TRASH: begun.to_string()}}}),
        json!({"metadata": {"resourceVersion": "8", "finalizers": []}}),
        json!({"status": {"phase": "Bound"}}),
    ] {
        assert_eq!(of(changes.clone()), same, "{changes}");
    }
    let longer = json!({"policy": "Delete", "windowSeconds": 7200,
        "claim": {"namespace": "ns", "name": "data", "uid": "1"}});
    let other = json!({"policy": "Delete", "windowSeconds": 3600,
        "claim": {"namespace": "ns", "name": "data", "uid": "2"}});
    for changes in [
        json!({"metadata": {"annotations": {TRASH: longer.to_string()}}}),
        json!({"metadata": {"annotations": {TRASH: other.to_string()}},
            "spec": {"claimRef": {"uid": "2"}}}),
        json!({"spec": {"capacity": {"storage": "2Gi"}}}),
        json!({"spec": {"storageClassName": "slow"}}),
    ] {
        assert_ne!(of(changes.clone()), same, "{changes}");
    }
}
