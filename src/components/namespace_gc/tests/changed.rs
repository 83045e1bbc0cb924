//! Tests of namespaces that change between the first read and the deletion.

use super::{
    scene::{HOUR, MINUTE, SECOND, Scene, by_events},
    *,
};
use std::time::SystemTime;
use tokio::time::sleep;

/// A new LIST may lack namespaces, for example, after the API server lost its data, or when another
/// API server has the same address.
#[tokio::test(start_paused = true)]
async fn namespaces_absent_from_a_new_list_are_left_to_a_collection_and_its_cap() {
    let options = Options {
        max_deletions: 2,
        ..Options::default()
    };
    let scene = Scene::new(options).await;
    let names = ["a", "b", "c", "d", "e"];
    names.iter().for_each(|name| scene.have(name));
    sleep(MINUTE).await;
    names.iter().for_each(|name| scene.delete_unseen(name));
    scene.list_again();
    sleep(SECOND * 5).await;
    assert_eq!(
        scene.storage.deletions(),
        0,
        "the collection lists Kubernetes twice"
    );
    sleep(MINUTE).await;
    assert_eq!(
        scene.storage.deletions(),
        2,
        "the collection does not wait for its interval"
    );
    scene.shows(r#"gc_namespaces{verdict="OverTheCap"} 3"#);
}

#[tokio::test(start_paused = true)]
async fn an_empty_new_list_deletes_nothing() {
    for options in [Options::default(), by_events()] {
        let scene = Scene::new(options).await;
        scene.have("shop");
        sleep(MINUTE).await;
        scene.server.state().namespaces.clear();
        scene.list_again();
        sleep(MINUTE * 30).await;
        assert_eq!(scene.storage.deletions(), 0);
    }
}

/// Another replica may have removed the namespace meanwhile, and a user may have recreated it.
#[tokio::test(start_paused = true)]
async fn a_replica_that_leads_again_has_forgotten_waiting_namespaces() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene.storage.fill("shop");
    scene.delete("shop");
    sleep(SECOND).await;
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 1"#);
    scene.lose_lead();
    sleep(SECOND).await;
    scene.gain_lead();
    scene.storage.empty("shop");
    sleep(HOUR).await;
    assert!(scene.storage.has("shop") && scene.storage.deletions() == 1);
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 0"#);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_new_at_the_next_attempt_is_kept() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene.storage.fill("shop");
    scene.delete("shop");
    sleep(SECOND).await;
    assert_eq!(scene.storage.deletions(), 1);
    scene.storage.state().namespaces.clear();
    scene.storage.create_since("shop", Some(SystemTime::now()));
    scene.storage.empty("shop");
    sleep(MINUTE * 30).await;
    assert!(scene.storage.has("shop") && scene.storage.deletions() == 1);
}

/// The queue still has the key of a retry after the namespace was recreated in Kubernetes. The
/// watch then misses its deletion, which is left to a collection.
#[tokio::test(start_paused = true)]
async fn a_retry_that_is_no_longer_needed_deletes_nothing() {
    let scene = Scene::new(Options::default()).await;
    scene.storage.create("shop");
    scene.storage.fill("shop");
    sleep(MINUTE).await;
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 1"#);
    let tries = scene.storage.deletions();
    scene.create("shop");
    scene.storage.state().namespaces.clear();
    scene.storage.create_since("shop", Some(SystemTime::now()));
    scene.storage.empty("shop");
    scene.delete_unseen("shop");
    scene.list_again();
    sleep(MINUTE * 30).await;
    assert!(scene.storage.has("shop"));
    assert_eq!(scene.storage.deletions(), tries);
    scene.shows(r#"gc_namespaces{verdict="TooYoung"} 1"#);
}

/// A deletion in the backend is aborted after a time limit, because the live read that justifies it
/// expires.
#[tokio::test(start_paused = true)]
async fn a_slow_deletion_times_out_and_is_retried() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene.storage.state().hangs = 1;
    scene.delete("shop");
    sleep(SECOND * 4).await;
    scene.shows(r#"namespaces_waiting{reason="Unavailable"} 0"#);
    sleep(SECOND / 2).await;
    scene.shows(r#"namespaces_waiting{reason="Unavailable"} 1"#);
    scene.shows(r#"backend_requests_total{operation="delete",outcome="Timeout"} 1"#);
    sleep(SECOND * 5).await;
    assert!(!scene.storage.has("shop"));
}
