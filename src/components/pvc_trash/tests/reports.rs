//! Tests of the Events about StorageClasses.

use super::{
    purging::{after, in_trash, server},
    scene::Scene,
};
use super::{record, recorded};
use crate::{
    cluster::Reconcile,
    components::pvc_trash::rule::{Decision, LeaveReason},
    objects::{
        ObjectName,
        undelete_window::{UNDELETE_WINDOW, UNDELETE_WINDOW_MAX},
    },
};
use serde_json::json;

/// The administrator learns of it before a claim of the class is lost.
#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_parsed_is_reported_before_the_class_has_volumes() {
    let scene = Scene::new(server(), after(10), in_trash(json!({})), &[]);
    let class = json!({"metadata": {"name": "new", "annotations": {UNDELETE_WINDOW: "soon"}},
        "provisioner": "p"});
    let class = serde_json::from_value(class).expect("a class");
    scene.reconciler.caches.classes.deliver(class, true);
    for _ in 0..2 {
        scene.reconciler.candidates();
    }
    let notes = scene.notes().await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains(UNDELETE_WINDOW), "{notes:?}");
}

/// A typing error of an administrator shortens no window that was recorded before.
#[tokio::test(start_paused = true)]
async fn an_unreadable_maximum_leaves_recorded_windows_unchanged() {
    let lengthened = record("1", json!({"windowSeconds": 36_000}));
    let volume = recorded("Bound", &lengthened);
    let scene = Scene::new(server(), after(10), in_trash(json!({})), &[]);
    let caches = &scene.reconciler.caches;
    let namespace = json!({"metadata": {"name": "ns", "uid": "n",
        "annotations": {UNDELETE_WINDOW: "10h"}}});
    let namespace = serde_json::from_value(namespace).expect("a namespace");
    let namespaces = caches.namespaces.as_ref().expect("namespaces are watched");
    namespaces.deliver(namespace, true);
    let claim = json!({"metadata": {"namespace": "ns", "name": "data", "uid": "1"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    let claim = serde_json::from_value(claim).expect("a claim");
    caches.claims.deliver(claim, true);
    let decision = |maximum: &str| {
        let annotations = json!({UNDELETE_WINDOW: "1h", UNDELETE_WINDOW_MAX: maximum});
        let class = json!({"metadata": {"name": "fast", "annotations": annotations},
            "provisioner": "p"});
        caches
            .classes
            .deliver(serde_json::from_value(class).expect("a class"), true);
        caches.judge(&ObjectName::cluster_scoped("pv"), &volume)
    };
    assert_eq!(decision("10h"), Decision::Leave(LeaveReason::Enabled));
    assert_eq!(
        decision("30d"),
        Decision::Leave(LeaveReason::Enabled),
        "it has no unit d"
    );
    assert!(matches!(decision("5h"), Decision::Record(_)));
}
