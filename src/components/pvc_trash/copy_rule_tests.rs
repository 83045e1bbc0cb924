use super::*;
use crate::objects::{
    Tracked as _,
    saved_volume::{SavedVolumeWire, config_map, name_of},
    test_volumes::whole,
    trash::TRASH,
};
use serde_json::{Value, json};

fn copy() -> SavedVolume {
    let manifest = whole(json!({})).manifest().expect("a manifest");
    let map = config_map(&name_of("volume-warden", "v"), &manifest.to_string());
    let wire: SavedVolumeWire = serde_json::from_value(map).expect("a ConfigMap");
    SavedVolume::track(wire).expect("a copy")
}

fn step(changes: Value, copied: bool) -> Step {
    let copy = copied.then(copy);
    decide(&whole(changes).volume, copy.as_ref())
}

#[test]
fn a_volume_is_saved_once_and_after_a_change() {
    assert_eq!(step(json!({}), false), Step::Save);
    assert_eq!(step(json!({}), true), Step::Leave);
    let larger = json!({"spec": {"capacity": {"storage": "2Gi"}}});
    assert_eq!(step(larger, true), Step::Save);
    let damaged = SavedVolume {
        fingerprint: None,
        ..copy()
    };
    let volume = whole(json!({})).volume;
    assert_eq!(decide(&volume, Some(&damaged)), Step::Save);
}

#[test]
fn the_copy_of_a_volume_that_the_trash_keeps_no_longer_is_deleted() {
    let original = json!({"policy": "Retain", "windowSeconds": 3600,
        "claim": {"namespace": "ns", "name": "data", "uid": "1"}});
    for changes in [
        json!({"metadata": {"annotations": {TRASH: null}}}),
        json!({"metadata": {"annotations": {TRASH: original.to_string()}}}),
        json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
    ] {
        assert_eq!(step(changes.clone(), true), Step::Delete, "{changes}");
        assert_eq!(step(changes.clone(), false), Step::Leave, "{changes}");
    }
}

/// The copy is the last one from which the volume can be created again.
#[test]
fn the_copy_of_a_volume_whose_state_is_not_final_stays() {
    for changes in [
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"capacity": {"storage": "2Gi"}}}),
        json!({"metadata": {"annotations": {TRASH: "{}"}}}),
        json!({"spec": {"claimRef": {"uid": null}}}),
        json!({"spec": {"claimRef": {"uid": "2"}}}),
    ] {
        assert_eq!(step(changes.clone(), true), Step::Leave, "{changes}");
    }
}
