//! Tests of the ConfigMaps in which pvc-trash saves the manifests of volumes: which writes are
//! sent, and in which order.

use super::{
    purging::{after, in_trash, server},
    scene::{Scene, Server},
};
use crate::components::pvc_trash::caches::Caches;
use crate::objects::{
    ObjectName,
    saved_volume::{SavedVolumeWire, config_map, name_of},
};
use serde_json::{Value, json};

/// The CSI source of the volume.
fn source() -> Value {
    json!({"spec": {"csi": {"driver": "d", "volumeHandle": "h"}}})
}

fn writes(scene: &Scene) -> Vec<String> {
    scene.server.writes.lock().clone()
}

fn copy(scene: &Scene) -> Option<Value> {
    scene.server.stored.lock().1.clone()
}

/// The watch delivers the manifest `volume` as the copy of the volume with this uid.
pub(super) fn deliver(scene: &Scene, volume_uid: &str, volume: Value) {
    let manifest = json!({"metadata": volume["metadata"], "spec": volume["spec"]});
    let mut map = config_map(&name_of("volume-warden", volume_uid), &manifest.to_string());
    map["metadata"]["uid"] = json!(format!("copy-of-{volume_uid}"));
    map["metadata"]["resourceVersion"] = json!("3");
    let wire: SavedVolumeWire = serde_json::from_value(map.clone()).expect("a ConfigMap");
    scene.reconciler.copies.feed.deliver(wire, true);
    scene.server.stored.lock().1 = Some(map);
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_saved_once() {
    let volume = in_trash(source());
    let scene = Scene::new(server(), after(30), volume.clone(), &[]);
    scene.reconcile().await.expect("it is in the trash");
    assert_eq!(writes(&scene), ["POST configmaps"]);
    let saved = copy(&scene).expect("a copy");
    assert_eq!(saved["metadata"]["name"], "volume-warden-trash-v");
    let manifest = saved["data"]["volume"].as_str().unwrap_or_default();
    let manifest: Value = serde_json::from_str(manifest).expect("a manifest");
    assert_eq!(manifest["spec"]["csi"]["volumeHandle"], "h");
    deliver(&scene, "v", volume);
    scene.reconcile().await.expect("it is in the trash");
    assert_eq!(writes(&scene).len(), 1);
}

/// The Volume Warden of that namespace keeps a copy, and deletes it before it purges the volume.
#[tokio::test(start_paused = true)]
async fn no_volume_of_a_namespace_that_is_not_watched_is_saved() {
    for only in ["other", "ns"] {
        let mut scene = Scene::new(server(), after(30), in_trash(source()), &[]);
        scene.reconciler.caches = Caches::new(&scene.feeds, Some(only), u64::MAX);
        scene.reconcile().await.expect("it is left");
        assert_eq!(copy(&scene).is_some(), only == "ns", "{only}");
    }
}

/// An administrator may have restored the data in another namespace.
#[tokio::test(start_paused = true)]
async fn a_copy_is_deleted_when_the_volume_warden_of_another_namespace_purges_the_volume() {
    let mut purged = in_trash(source());
    purged["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    // The watch may show the volume as it was before its first record.
    let mut before = purged.clone();
    before["metadata"]["annotations"] = json!({});
    for (watched, live, stays) in [
        (&purged, &purged, false),
        (&before, &before, false),
        (&before, &in_trash(source()), true),
    ] {
        // The watch of a new leader may be late, too.
        for only in [Some("other"), None] {
            let mut scene = Scene::new(server(), after(30), watched.clone(), &[]);
            scene.reconciler.caches = Caches::new(&scene.feeds, only, u64::MAX);
            deliver(&scene, "v", in_trash(source()));
            scene.server.stored.lock().0 = live.clone();
            scene.reconcile().await.expect("it is left");
            assert_eq!(copy(&scene).is_some(), stays, "{live}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_written_again_after_a_change() {
    let scene = Scene::new(server(), after(30), in_trash(source()), &[]);
    let smaller = json!({"spec": {"capacity": {"storage": "1Mi"}}});
    deliver(&scene, "v", in_trash(smaller));
    scene.reconcile().await.expect("it is in the trash");
    assert_eq!(writes(&scene), ["PATCH volume-warden-trash-v"]);
    scene.reconcile().await.expect("it is in the trash");
    assert_eq!(writes(&scene).len(), 1, "the watch has not delivered it");
}

/// The copy is deleted first, because a copy without a volume means that the volume was removed by
/// force.
#[tokio::test(start_paused = true)]
async fn the_copy_is_deleted_before_the_purge() {
    let scene = Scene::new(server(), after(120), in_trash(source()), &[]);
    deliver(&scene, "v", in_trash(source()));
    scene.reconcile().await.expect("it is purged");
    let expected = [
        "PATCH pv dryRun",
        "DELETE volume-warden-trash-v",
        "PATCH pv",
    ];
    assert_eq!(writes(&scene), expected);
    assert_eq!(copy(&scene), None);
}

/// After the refusal, the volume stays in the trash, and only the copy can create it again. A purge
/// that was not sent does not count towards the limit.
#[tokio::test(start_paused = true)]
async fn the_copy_stays_if_the_purge_would_be_refused() {
    let server = Server {
        refuses: true,
        ..server()
    };
    let scene = Scene::new(server, after(120), in_trash(source()), &[]);
    deliver(&scene, "v", in_trash(source()));
    scene.reconcile().await.expect_err("it is refused");
    assert_eq!(writes(&scene), ["PATCH pv dryRun"]);
    assert!(copy(&scene).is_some());
    let notes = scene.notes().await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("refused the write"), "{notes:?}");
    let metrics = scene.metrics.text();
    let refused = |line: &&str| line.contains("action=\"Purge\"") && line.contains("\"Failed\"");
    assert!(metrics.lines().any(|line| refused(&line)), "{metrics}");
    let other = ObjectName::cluster_scoped("other");
    assert!(scene.reconciler.purges.reserve(&other, false).is_ok());
}

/// The copy of a volume that was removed by force, which the watch has not delivered yet, is all
/// that says where its data is.
#[tokio::test(start_paused = true)]
async fn the_copy_of_a_volume_that_does_not_exist_stays() {
    let scene = Scene::new(server(), after(120), in_trash(source()), &[]);
    deliver(&scene, "v", in_trash(source()));
    scene.server.stored.lock().0 = Value::Null;
    let outcome = scene.reconcile().await;
    assert!(copy(&scene).is_some(), "{:?}", writes(&scene));
    outcome.expect_err("it is not purged");
    assert_eq!(scene.notes().await, [""; 0]);
}

/// After a purge that the API server refused, the next attempts write no copies.
#[tokio::test(start_paused = true)]
async fn a_volume_whose_purge_is_due_gets_no_copy() {
    let scene = Scene::new(server(), after(120), in_trash(source()), &[]);
    scene.reconcile().await.expect("it is purged");
    assert_eq!(writes(&scene), ["PATCH pv dryRun", "PATCH pv"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_purged_whose_copy_cannot_be_read() {
    let mut server = server();
    server.unreadable = Some("/configmaps/");
    let scene = Scene::new(server, after(120), in_trash(source()), &[]);
    deliver(&scene, "v", in_trash(source()));
    let error = scene.reconcile().await.expect_err("it is not purged");
    assert!(error.contains("ConfigMap"), "{error}");
    assert_eq!(writes(&scene), ["PATCH pv dryRun"]);
}

/// The volume was created again under its name, and has another uid.
#[tokio::test(start_paused = true)]
async fn the_copy_of_an_earlier_volume_with_the_same_data_is_deleted() {
    let other = json!({"spec": {"csi": {"driver": "d", "volumeHandle": "other"}}});
    for (earlier, expected) in [(source(), 1), (other, 0)] {
        let scene = Scene::new(server(), after(30), in_trash(source()), &[]);
        deliver(&scene, "v", in_trash(source()));
        deliver(&scene, "before", in_trash(earlier));
        scene.reconcile().await.expect("it is in the trash");
        let deletes = writes(&scene);
        assert_eq!(deletes.len(), expected, "{deletes:?}");
        let named = |write: &String| write == "DELETE volume-warden-trash-before";
        assert!(deletes.iter().all(named), "{deletes:?}");
    }
}

/// By a quota of the system namespace, for example.
#[tokio::test(start_paused = true)]
async fn a_refused_copy_is_reported_once_on_the_volume() {
    let server = Server {
        refuses: true,
        ..server()
    };
    let scene = Scene::new(server, after(30), in_trash(source()), &[]);
    for _ in 0..3 {
        scene.reconcile().await.expect_err("it is retried");
    }
    assert_eq!(writes(&scene), ["POST configmaps"; 3]);
    let notes = scene.notes().await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("refused the copy"), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_too_large_is_reported_once() {
    let large = json!({"metadata": {"annotations": {"x": "x".repeat(64 * 1024)}}});
    let scene = Scene::new(server(), after(30), in_trash(large), &[]);
    scene.reconcile().await.expect("it is in the trash");
    scene.reconcile().await.expect("it is in the trash");
    assert_eq!(copy(&scene), None);
    let notes = scene.notes().await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("more than 64 KiB"), "{notes:?}");
}
