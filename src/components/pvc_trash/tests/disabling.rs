//! Tests of the live read without which the trash is disabled for no volume.

use super::{
    copies::deliver,
    purging::{after, in_trash, server},
    scene::{Scene, Server},
};
use crate::{
    cluster::WorkQueue,
    objects::{ObjectName, expiry::EXPIRES_AT, trash::TRASH, undelete_window::UNDELETE_WINDOW},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

const POLICY: &str = "/spec/persistentVolumeReclaimPolicy";
const ANNOUNCED: &str = "2026-01-08T00:00:00Z";

/// The claim of the volume, with these changes.
fn claim(changes: Value) -> Value {
    let mut claim = json!({"metadata": {"namespace": "ns", "name": "data", "uid": "1"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    json_patch::merge(&mut claim, &changes);
    claim
}

fn announced() -> Value {
    claim(json!({"metadata": {"annotations": {EXPIRES_AT: ANNOUNCED}}}))
}

/// A replica whose watches have delivered a Bound volume with a record, the claim `watched` and the
/// undelete window `off`, while the API server has the claim `live`.
fn scene(watched: Value, live: Value) -> Scene {
    let bound = json!({"metadata": {"annotations": {}}, "status": {"phase": "Bound"}});
    let server = Server {
        claims: vec![live],
        ..server()
    };
    let scene = Scene::new(server, after(0), in_trash(bound), &[watched]);
    disable(&scene);
    scene
}

/// As [`scene`], for a volume that has a copy, whose claim no one has changed.
fn copied(server: Server) -> Scene {
    let bound = || json!({"metadata": {"annotations": {}}, "status": {"phase": "Bound"}});
    let server = Server {
        claims: vec![claim(json!({}))],
        ..server
    };
    let scene = Scene::new(server, after(0), in_trash(bound()), &[claim(json!({}))]);
    disable(&scene);
    deliver(&scene, "v", in_trash(bound()));
    scene
}

/// The watch delivers a class with the undelete window `off`.
fn disable(scene: &Scene) {
    let annotations = json!({UNDELETE_WINDOW: "off"});
    let class = json!({"metadata": {"name": "fast", "annotations": annotations}});
    let class = serde_json::from_value(class).expect("a class");
    scene.reconciler.caches.classes.deliver(class, true);
}

/// pvc-expiry may delete a claim with an announcement at any time, because it has read the record.
#[tokio::test(start_paused = true)]
async fn the_trash_is_not_disabled_under_a_claim_that_may_be_expiring() {
    let plain = || claim(json!({}));
    let deleting = claim(json!({"metadata": {"deletionTimestamp": ANNOUNCED}}));
    for (watched, live, disabled) in [
        (plain(), plain(), true),
        (plain(), announced(), false),
        (announced(), announced(), false),
        (plain(), deleting, false),
    ] {
        let scene = scene(watched, live.clone());
        let outcome = scene.reconcile().await;
        let policy = scene.patched(POLICY);
        assert_eq!(policy, disabled.then(|| json!("Delete")), "{live}");
        assert!(outcome.is_ok() || !disabled, "{outcome:?}");
    }
}

/// A Bound volume whose change is refused keeps its record, and its copy.
#[tokio::test(start_paused = true)]
async fn the_copy_is_deleted_only_if_the_trash_can_be_disabled() {
    let all = [
        "PATCH pv dryRun",
        "DELETE volume-warden-trash-v",
        "PATCH pv",
    ];
    for (refuses, expected) in [(true, &all[..1]), (false, &all[..])] {
        let scene = copied(Server {
            refuses,
            ..server()
        });
        let outcome = scene.reconcile().await;
        assert_eq!(outcome.is_err(), refuses, "{outcome:?}");
        let writes = scene.server.writes.lock().clone();
        assert_eq!(writes, expected);
    }
}

/// A warning says to the user that the data is kept. The deletion of the copy may wait for other
/// writes.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_deleted_meanwhile_keeps_its_record() {
    for (interrupts, phase, policy) in [
        (Some("DELETE volume-warden-trash-v"), "Bound", "Retain"),
        (Some("PATCH pv"), "Bound", "Retain"),
        // Its provisioner may have begun to delete the data.
        (Some("PATCH pv"), "Released", "Delete"),
        (None, "Bound", "Delete"),
    ] {
        let scene = copied(Server {
            interrupts,
            ..server()
        });
        scene.server.stored.lock().0["status"]["phase"] = phase.into();
        let outcome = scene.reconcile().await;
        let refused = interrupts.is_some_and(|write| write.starts_with("DELETE"));
        assert_eq!(outcome.is_err(), refused, "{outcome:?}");
        let volume = scene.server.stored.lock().0.clone();
        let found = &volume["spec"]["persistentVolumeReclaimPolicy"];
        assert_eq!(found, policy, "{interrupts:?} {phase}");
        let recorded = volume["metadata"]["annotations"][TRASH].is_string();
        assert_eq!(recorded, policy == "Retain", "{interrupts:?} {phase}");
    }
}

/// Without it, the volume would keep its record until the next resync.
#[tokio::test(start_paused = true)]
async fn the_end_of_an_announcement_disables_the_trash_at_once() {
    let scene = scene(announced(), claim(json!({})));
    let queue = Arc::new(WorkQueue::default());
    queue.open();
    scene.reconciler.listen(&queue);
    let ended = serde_json::from_value(claim(json!({}))).expect("a claim");
    scene.reconciler.caches.claims.deliver(ended, true);
    let next = timeout(Duration::from_millis(1), queue.take()).await;
    assert_eq!(next.ok(), Some(ObjectName::cluster_scoped("pv")));
    scene.reconcile().await.expect("the trash is disabled");
    assert_eq!(scene.patched(POLICY), Some(json!("Delete")));
}
