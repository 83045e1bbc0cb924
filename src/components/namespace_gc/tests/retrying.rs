//! Tests of retries with the record of the namespace names that this cluster once had.

use super::{
    remembering::seen,
    scene::{HOUR, MINUTE, SECOND, Scene},
};
use std::time::SystemTime;
use tokio::time::sleep;

/// A collection has found the recorded namespace `full`, which is not empty and waits.
async fn waiting_orphan() -> Scene {
    let scene = Scene::new(seen()).await;
    scene.server.record("default\nfull\nkube-system\n");
    scene.storage.create("full");
    scene.storage.fill("full");
    sleep(MINUTE).await;
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 1"#);
    scene
}

/// The watch has reported the deletion of the namespace `shop`, which is not empty and waits.
async fn waiting_deletion(scene: &Scene) {
    scene.have("shop");
    sleep(SECOND).await;
    scene.storage.fill("shop");
    scene.delete("shop");
    sleep(MINUTE * 2).await;
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 1"#);
}

/// The name belongs to another cluster now, so an administrator has removed it from the record.
#[tokio::test(start_paused = true)]
async fn an_orphan_whose_name_was_removed_from_the_record_is_kept() {
    for names in [Some("default\nkube-system\n"), None] {
        let scene = waiting_orphan().await;
        match names {
            Some(names) => scene.server.record(names),
            None => scene.server.state().config_map = None,
        }
        let tries = scene.storage.deletions();
        scene.storage.empty("full");
        sleep(HOUR * 2).await;
        assert!(scene.storage.has("full"), "{names:?}");
        assert_eq!(scene.storage.deletions(), tries, "{names:?}");
        scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 0"#);
        scene.shows(r#"gc_namespaces{verdict="NotSeen"} 1"#);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_whose_name_was_removed_from_the_record_is_kept() {
    let scene = Scene::new(seen()).await;
    waiting_deletion(&scene).await;
    scene.server.record("default\nkube-system\n");
    scene.storage.empty("shop");
    sleep(HOUR).await;
    assert!(scene.storage.has("shop"));
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 0"#);
}

/// While the storage writes to the namespace, each retry finds it too young.
#[tokio::test(start_paused = true)]
async fn a_young_namespace_whose_name_leaves_the_record_is_kept() {
    let scene = Scene::new(seen()).await;
    let since = |since| {
        let mut state = scene.storage.state();
        let shop = state.namespaces.iter_mut().find(|each| each.name == "shop");
        shop.expect("it exists").since = since;
    };
    scene.have("shop");
    sleep(SECOND).await;
    scene.storage.fill("shop");
    scene.delete("shop");
    sleep(SECOND * 5).await;
    since(Some(SystemTime::now()));
    sleep(MINUTE * 2).await;
    scene.server.record("default\nkube-system\n");
    scene.storage.empty("shop");
    sleep(HOUR).await;
    since(None);
    sleep(HOUR * 2).await;
    assert!(scene.storage.has("shop"));
}

#[tokio::test(start_paused = true)]
async fn a_recorded_namespace_is_deleted_once_it_is_empty() {
    let scene = waiting_orphan().await;
    scene.storage.empty("full");
    sleep(MINUTE * 30).await;
    assert!(!scene.storage.has("full"));
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 0"#);
}

/// The watch has reported its deletion, so this cluster had it, even if the record has no room.
#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_that_was_never_recorded_is_retried() {
    let scene = Scene::new(seen()).await;
    scene.server.fail("PUT configmaps", 500, 1000);
    waiting_deletion(&scene).await;
    assert_eq!(scene.server.recorded(), "default kube-system");
    scene.storage.empty("shop");
    sleep(MINUTE * 30).await;
    assert!(!scene.storage.has("shop"));
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_a_record_that_cannot_be_read() {
    let scene = waiting_orphan().await;
    let tries = scene.storage.deletions();
    scene.server.fail("GET configmaps", 403, 1000);
    scene.storage.empty("full");
    sleep(MINUTE * 30).await;
    assert!(scene.storage.has("full"));
    assert_eq!(scene.storage.deletions(), tries);
    scene.shows(r#"namespaces_waiting{reason="Unconfirmed"} 1"#);
    scene.server.state().fails.clear();
    sleep(MINUTE * 6).await;
    assert!(!scene.storage.has("full"));
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_while_the_record_is_of_another_cluster() {
    let scene = waiting_orphan().await;
    if let Some(map) = &mut scene.server.state().config_map {
        let cluster = "volume-warden.dev/cluster";
        map["metadata"]["annotations"] = serde_json::json!({ cluster: "another" });
    }
    scene.storage.empty("full");
    sleep(MINUTE * 30).await;
    assert!(scene.storage.has("full"));
    scene.shows(r#"namespaces_waiting{reason="Unconfirmed"} 1"#);
}

/// A collection between two attempts found that the storage no longer has the namespace. What
/// appears under its name afterwards belongs to another user of the storage.
#[tokio::test(start_paused = true)]
async fn a_name_that_the_record_forgot_between_two_attempts_is_kept() {
    let scene = waiting_orphan().await;
    scene.storage.state().namespaces.clear();
    // The watch misses a deletion, so that a collection runs soon.
    scene.create("web");
    scene.delete_unseen("web");
    scene.list_again();
    sleep(SECOND * 5).await;
    assert_eq!(scene.server.recorded(), "default kube-system");
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 1"#);
    scene.storage.create("full");
    scene.storage.empty("full");
    sleep(HOUR).await;
    assert!(scene.storage.has("full"));
}
