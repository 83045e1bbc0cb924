//! What is not any more as it was when it was first looked at.

use super::{
    scene::{HOUR, MINUTE, SECOND, Scene, by_events},
    *,
};
use std::time::SystemTime;
use tokio::time::sleep;

/// An API server that lost its data, or another one behind the same address.
#[tokio::test(start_paused = true)]
async fn what_a_new_list_lacks_is_left_to_a_collection_and_its_cap() {
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
    assert_eq!(scene.storage.deletions(), 0, "it looks twice");
    sleep(MINUTE).await;
    assert_eq!(scene.storage.deletions(), 2, "before the hour is over");
    scene.shows(r#"gc_namespaces{verdict="OverTheCap"} 3"#);
}

#[tokio::test(start_paused = true)]
async fn a_new_list_without_anything_loses_nothing() {
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

/// Another replica may have removed it meanwhile, and somebody may have made one anew.
#[tokio::test(start_paused = true)]
async fn who_leads_again_has_forgotten_what_waited() {
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
async fn one_that_is_new_when_its_turn_comes_again_is_somebody_elses() {
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

/// What the deletion was decided by is true for a moment only.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_takes_long_is_given_up_and_tried_again() {
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
