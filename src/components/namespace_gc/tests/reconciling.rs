//! Tests of the reconciler after the watch reports the deletion of a namespace.

use super::{
    scene::{HOUR, MINUTE, SECOND, Scene, by_events},
    *,
};
use crate::{
    backend::{Deletion, Failure},
    clock::Clock,
};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn ns_01_one_list_and_one_deletion_as_listed() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene.delete("shop");
    sleep(SECOND).await;
    assert!(!scene.storage.has("shop"));
    assert_eq!(scene.storage.lists(), 1);
    let expected = [("id-shop".to_owned(), "1".to_owned())];
    assert_eq!(scene.storage.state().deletions, expected);
    assert_eq!(scene.server.reasons(), ["NamespaceDeleted"]);
    let event = scene.server.state().events[0].clone();
    let regarding = &event["regarding"];
    assert_eq!(
        (regarding["kind"].as_str(), regarding["uid"].as_str()),
        (Some("Lease"), Some("lease-uid"))
    );
    assert_eq!(event["type"], "Normal");
    scene.shows(r#"backend_requests_total{operation="delete",outcome="Ok"} 1"#);
}

#[tokio::test(start_paused = true)]
async fn ns_02_and_03_an_absent_namespace_is_done() {
    let scene = Scene::new(by_events()).await;
    scene.create("shop");
    scene.delete("shop");
    sleep(HOUR).await;
    assert_eq!((scene.storage.lists(), scene.storage.deletions()), (1, 0));
    scene.have("other");
    scene.storage.state().is_shared = true;
    scene.delete("other");
    sleep(HOUR).await;
    // The second list shows that the answer 404 was not that of a proxy.
    assert_eq!((scene.storage.lists(), scene.storage.deletions()), (3, 1));
    assert_eq!(scene.server.reasons(), [""; 0]);
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 0"#);
    // NS-35: a deletion of a namespace that the backend does not have any more is not an error.
    scene.shows(r#"backend_requests_total{operation="delete",outcome="NotFound"} 1"#);
}

/// A proxy answers 404 to everything but lists.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_listed_is_not_absent() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    let answers = [Ok(Deletion::NotFound), Ok(Deletion::NotFound)];
    scene.storage.state().answers.extend(answers);
    scene.delete("shop");
    sleep(MINUTE * 5).await;
    assert!(!scene.storage.has("shop"));
    assert_eq!((scene.storage.lists(), scene.storage.deletions()), (3, 3));
    scene.shows(r#"namespaces_waiting{reason="Changing"} 0"#);
}

#[tokio::test(start_paused = true)]
async fn ns_04_a_namespace_is_deleted_once_it_is_empty() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene.storage.fill("shop");
    scene.delete("shop");
    sleep(MINUTE * 5).await;
    assert!(scene.storage.has("shop"));
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 1"#);
    let tries = scene.storage.deletions();
    assert!((3..=5).contains(&tries), "{tries}");
    scene.storage.empty("shop");
    sleep(MINUTE * 10).await;
    assert!(!scene.storage.has("shop"));
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 0"#);
    scene.shows(r#"namespaces_waiting_oldest_timestamp_seconds{reason="NotEmpty"} 0"#);
    assert_eq!(
        scene.server.reasons(),
        ["NamespaceNotEmpty", "NamespaceDeleted"],
        "one Event for each"
    );
    let note = scene.server.state().events[0]["note"].clone();
    assert!(
        note.as_str()
            .is_some_and(|note| note.contains("it has volumes")),
        "{note}"
    );
}

/// Otherwise the last Event would say that the backend still has the namespace.
#[tokio::test(start_paused = true)]
async fn an_event_says_that_a_waiting_namespace_was_deleted_by_someone_else() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene.storage.fill("shop");
    scene.delete("shop");
    sleep(MINUTE * 5).await;
    scene.storage.state().namespaces.clear();
    sleep(MINUTE * 10).await;
    assert_eq!(
        scene.server.reasons(),
        ["NamespaceNotEmpty", "NamespaceDeleted"]
    );
    let note = scene.server.state().events[1]["note"].to_string();
    assert!(note.contains("no longer exists there"), "{note}");
}

#[tokio::test(start_paused = true)]
async fn ns_05_an_hour_has_few_attempts() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene.storage.fill("shop");
    // The test pauses the timers and not the wall clock.
    let start = Clock::system().timestamp().as_second();
    scene.delete("shop");
    sleep(HOUR).await;
    let tries = scene.storage.deletions();
    assert!((5..=10).contains(&tries), "{tries}");
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 1"#);
    let text = scene.metrics.text();
    let series = r#"volume_warden_namespaces_waiting_oldest_timestamp_seconds{reason="NotEmpty"} "#;
    let oldest = text.lines().find_map(|line| line.strip_prefix(series));
    let oldest: i64 = oldest.and_then(|text| text.parse().ok()).expect("a number");
    assert!((start..start + 600).contains(&oldest), "{oldest}, {start}");
}

#[tokio::test(start_paused = true)]
async fn ns_06_a_changed_namespace_is_listed_again_at_once() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene.storage.state().answers.push_back(Ok(Deletion::Stale));
    scene.delete("shop");
    sleep(SECOND / 2).await;
    assert!(!scene.storage.has("shop"));
    assert_eq!((scene.storage.lists(), scene.storage.deletions()), (2, 2));
    scene.have("other");
    scene
        .storage
        .state()
        .answers
        .extend((0..6).map(|_| Ok(Deletion::Stale)));
    scene.delete("other");
    sleep(SECOND / 2).await;
    assert_eq!(scene.storage.deletions(), 4, "and then waits");
    scene.shows(r#"namespaces_waiting{reason="Changing"} 1"#);
    sleep(SECOND * 30).await;
    assert!(!scene.storage.has("other"));
}

/// Test cases NS-09 to NS-12 of the specification.
#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_growing_delays() {
    for (failure, reason) in [
        (Failure::credentials("401"), "Unauthorized"),
        (
            Failure::permissions("403: it has to be an administrator"),
            "Unauthorized",
        ),
        (Failure::server("503"), "Unavailable"),
        (Failure::transport("reset"), "Unavailable"),
        (Failure::timeout("late"), "Unavailable"),
    ] {
        let scene = Scene::new(by_events()).await;
        scene.have("shop");
        let failures = |count| (0..count).map(|_| failure.clone());
        scene.storage.state().lists_fail.extend(failures(3));
        scene.storage.state().answers.extend(failures(3).map(Err));
        scene.delete("shop");
        sleep(SECOND / 2).await;
        scene.shows(&format!("namespaces_waiting{{reason=\"{reason}\"}} 1"));
        sleep(MINUTE * 2).await;
        assert!(!scene.storage.has("shop"), "{reason}");
        assert_eq!((scene.storage.lists(), scene.storage.deletions()), (7, 4));
        scene.shows(&format!("namespaces_waiting{{reason=\"{reason}\"}} 0"));
        assert_eq!(
            scene.server.reasons(),
            ["NamespaceDeleteFailed", "NamespaceDeleted"]
        );
        let note = scene.server.state().events[0]["note"].clone();
        assert!(
            note.as_str()
                .is_some_and(|note| note.contains(failure.why().as_str())),
            "{note}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_is_down_for_hours_gets_few_requests() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene
        .storage
        .state()
        .lists_fail
        .extend((0..1000).map(|_| Failure::transport("refused")));
    scene.delete("shop");
    sleep(HOUR * 2).await;
    let lists = scene.storage.lists();
    assert!((24..=42).contains(&lists), "{lists}");
}

#[tokio::test(start_paused = true)]
async fn ns_13_a_recreated_namespace_is_kept() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene.delete("shop");
    scene.create("shop");
    sleep(MINUTE).await;
    assert_eq!(
        scene.storage.lists(),
        0,
        "the cached namespace is enough to keep it"
    );
    scene.deliver("shop", false);
    sleep(MINUTE).await;
    assert_eq!(
        (scene.storage.has("shop"), scene.storage.deletions()),
        (true, 0),
        "it is read live"
    );
    scene.deliver("shop", true);
    scene.storage.fill("shop");
    scene.delete("shop");
    sleep(SECOND * 5).await;
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 1"#);
    scene.create("shop");
    scene.storage.empty("shop");
    sleep(HOUR).await;
    assert!(scene.storage.has("shop"));
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 0"#);
}

#[tokio::test(start_paused = true)]
async fn ns_14_only_a_deletion_triggers_a_removal() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    for _ in 0..3 {
        scene.deliver("shop", true);
        sleep(MINUTE).await;
    }
    assert_eq!(
        (scene.storage.lists(), scene.server.called("GET namespaces")),
        (0, 0)
    );
}

/// Test case NS-25 of the specification.
#[tokio::test(start_paused = true)]
async fn protected_names_are_never_deleted() {
    let scene = Scene::new(by_events()).await;
    for name in ["default", "kube-system"] {
        scene.storage.create(name);
        scene.delete(name);
    }
    sleep(HOUR).await;
    assert_eq!((scene.storage.lists(), scene.storage.deletions()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_may_exist_is_kept() {
    let scene = Scene::new(by_events()).await;
    scene.have("shop");
    scene.server.fail("GET namespaces", 500, 3);
    scene.delete("shop");
    sleep(SECOND * 2).await;
    assert_eq!(scene.storage.deletions(), 0);
    scene.shows(r#"namespaces_waiting{reason="Unconfirmed"} 1"#);
    sleep(MINUTE).await;
    assert!(!scene.storage.has("shop"));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_deletes_nothing() {
    let options = Options {
        dry_run: true,
        ..by_events()
    };
    let scene = Scene::new(options).await;
    scene.have("shop");
    scene.delete("shop");
    sleep(HOUR).await;
    assert_eq!(
        (scene.storage.has("shop"), scene.storage.deletions()),
        (true, 0)
    );
    assert_eq!(scene.server.reasons(), [""; 0]);
    scene.shows(r#"actions_total{component="namespace-gc",action="DeleteFromBackend",reason="RecentlyDeleted",outcome="Withheld"} 1"#);
}

/// Concurrent removals share lists of the backend, and the number of concurrent deletions is
/// limited.
#[tokio::test(start_paused = true)]
async fn many_deletions_at_once_cost_a_few_lists() {
    let scene = Scene::new(by_events()).await;
    let names: Vec<_> = (0..200).map(|index| format!("shop-{index}")).collect();
    names.iter().for_each(|name| scene.have(name));
    names.iter().for_each(|name| scene.delete(name));
    sleep(MINUTE).await;
    let state = scene.storage.state();
    assert!(state.namespaces.is_empty());
    assert_eq!((state.deletions.len(), state.most_in_flight), (200, 5));
    assert!(state.lists <= 3, "{}", state.lists);
}
