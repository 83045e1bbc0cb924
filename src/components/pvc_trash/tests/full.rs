//! Tests of the limit `--trash-max-bytes`.

use super::{
    claim, record, recorded,
    scene::{Scene, Server},
    view, volume,
};
use crate::{
    cluster::Change,
    components::pvc_trash::{
        rule::{Decision, LeaveReason, View, decide, record_at_creation},
        usage::Usage,
    },
    objects::{ObjectName, Volume, undelete_window::UNDELETE_WINDOW},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

const DELETED: &str = "2026-01-01T00:00:00Z";
const GI: u64 = 1 << 30;

fn in_trash(changes: Value) -> Arc<Volume> {
    let mut record = record("1", json!({"deletedAt": DELETED}));
    json_patch::merge(&mut record, &changes);
    Arc::new(recorded("Released", &record))
}

#[test]
fn only_what_is_in_the_trash_counts() {
    let usage = Usage::new(2 * GI);
    let name = ObjectName::cluster_scoped("pv");
    let change = |old, new| {
        usage.update(&Change {
            name: &name,
            old,
            new,
            tombstone: false,
        });
        usage.is_full("ns")
    };
    let (one, restored) = (
        in_trash(json!({})),
        recorded("Bound", &record("1", json!({}))),
    );
    let (kept, restored) = (in_trash(json!({"policy": "Retain"})), Arc::new(restored));
    assert!(!change(None, Some(&one)));
    assert!(!change(None, Some(&kept)));
    assert!(!change(None, Some(&restored)));
    assert!(change(None, Some(&one)));
    assert!(!usage.is_full("other"));
    assert!(change(Some(&one), Some(&one)));
    assert!(!change(Some(&one), Some(&restored)));
    assert!(change(Some(&restored), Some(&one)));
    assert!(!change(Some(&one), None));
}

#[test]
fn without_a_limit_no_trash_is_full() {
    assert!(!Usage::new(u64::MAX).is_full("ns"));
    assert!(Usage::new(0).is_full("ns"));
}

/// A full trash keeps the volumes that it has. Volumes that had the policy Retain do not count.
#[test]
fn a_full_trash_is_not_enabled_for_new_volumes() {
    let own = claim(json!({}));
    let full = |volume| View {
        full: true,
        ..view(volume, Some(&own))
    };
    let new = volume(json!({}));
    assert_eq!(decide(&full(&new)), Decision::Leave(LeaveReason::Full));
    assert_eq!(record_at_creation(&full(&new)), None);
    assert!(record_at_creation(&view(&new, Some(&own))).is_some());
    let enabled = recorded("Bound", &record("1", json!({})));
    assert_eq!(
        decide(&full(&enabled)),
        Decision::Leave(LeaveReason::Enabled)
    );
    let retained = volume(json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}));
    assert!(matches!(decide(&full(&retained)), Decision::Record(_)));
    let out = claim(json!({"metadata": {"annotations": {UNDELETE_WINDOW: "0"}}}));
    let out = View {
        full: true,
        ..view(&new, Some(&out))
    };
    assert_eq!(decide(&out), Decision::Leave(LeaveReason::NotEnabled));
}

#[tokio::test(start_paused = true)]
async fn an_event_says_so_once_on_the_volume_and_on_its_claim() {
    let time = DELETED.parse().expect("a time");
    let server = Server {
        created: Mutex::default(),
        claims: Vec::new(),
        namespace: Some("n"),
        attached: None,
        others: Vec::new(),
        unreadable: None,
        refuses: false,
        slow: None,
        interrupts: None,
        time,
        patches: Mutex::default(),
        stored: Mutex::default(),
        writes: Mutex::default(),
    };
    let bound = json!({
        "metadata": {"name": "pv", "uid": "v", "resourceVersion": "7"},
        "spec": {"storageClassName": "fast", "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": "ns", "name": "data", "uid": "1"}},
        "status": {"phase": "Bound"},
    });
    let own = json!({"metadata": {"namespace": "ns", "name": "data", "uid": "1"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    let scene = Scene::limited(server, time, bound, &[own], 0);
    let class = json!({"metadata": {"name": "fast", "annotations": {UNDELETE_WINDOW: "1h"}},
        "provisioner": "p"});
    let class = serde_json::from_value(class).expect("a class");
    scene.reconciler.caches.classes.deliver(class, true);
    for _ in 0..2 {
        scene.reconcile().await.expect("left unchanged");
    }
    let notes = scene.notes().await;
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes.iter().all(|note| note.contains("--trash-max-bytes")),
        "{notes:?}"
    );
    assert_eq!(scene.patched("/spec/persistentVolumeReclaimPolicy"), None);
}
