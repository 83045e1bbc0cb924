//! Tests of periodic collections.

use super::{
    super::collection::Abort,
    scene::{HOUR, MINUTE, SECOND, Scene},
    *,
};
use crate::backend::Failure;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::time::sleep;

fn with(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    change(&mut options);
    options
}

#[tokio::test(start_paused = true)]
async fn ns_15_an_orphan_is_deleted_after_the_delay_and_two_lists() {
    let scene = Scene::new(Options::default()).await;
    scene.storage.create("orphan");
    sleep(SECOND * 28).await;
    assert!(scene.storage.has("orphan") && scene.storage.deletions() == 0);
    sleep(SECOND * 5).await;
    assert!(!scene.storage.has("orphan"));
    assert_eq!((scene.storage.lists(), scene.storage.deletions()), (1, 1));
    assert_eq!(scene.server.called("LIST namespaces"), 2);
    assert_eq!(scene.server.reasons(), ["NamespaceDeleted"]);
    scene.shows(r#"gc_runs_total{outcome="Done"} 1"#);
    scene.shows(r#"gc_namespaces{verdict="Orphan"} 1"#);
}

/// The next leader has newer results. The time of the last success stays: it says how old it is.
#[tokio::test(start_paused = true)]
async fn a_former_leader_has_no_results() {
    let scene = Scene::new(with(|options| options.scope = Scope::Seen)).await;
    scene.have("shop");
    sleep(MINUTE).await;
    let results = ["gc_namespaces{", "seen_namespaces{"];
    let text = scene.metrics.text();
    for name in results {
        assert!(text.contains(&format!("volume_warden_{name}")), "{text}");
    }
    scene.lose_lead();
    sleep(SECOND).await;
    let text = scene.metrics.text();
    for name in results {
        assert!(!text.contains(&format!("volume_warden_{name}")), "{text}");
    }
    let never = "volume_warden_gc_last_success_timestamp_seconds 0\n";
    assert!(!text.contains(never), "{text}");
}

/// So that `increase` includes the first of them.
#[tokio::test(start_paused = true)]
async fn failed_collections_are_counted_from_zero() {
    let scene = Scene::following(Options::default());
    let down = Failure::server("500");
    let too_long = Arc::new(kube::Error::LinesCodecMaxLineLengthExceeded);
    let aborts = [
        Abort::Backend(down),
        Abort::Kubernetes(too_long),
        Abort::Empty,
        Abort::Seen(Unreadable::Foreign),
    ];
    let aborts = aborts.iter().map(Abort::name);
    for outcome in aborts.chain(["Done", "Incomplete", "Panicked"]) {
        scene.shows(&format!("gc_runs_total{{outcome=\"{outcome}\"}} 0"));
    }
}

#[tokio::test(start_paused = true)]
async fn ns_16_without_an_interval_there_is_no_collection() {
    let scene = Scene::new(with(|options| options.interval = Duration::ZERO)).await;
    scene.storage.create("orphan");
    sleep(HOUR * 3).await;
    assert_eq!(scene.storage.lists(), 0);
    scene.have("shop");
    scene.delete("shop");
    sleep(SECOND).await;
    assert!(scene.storage.has("orphan") && !scene.storage.has("shop"));
}

/// Test cases NS-17 and NS-18 of the specification.
#[tokio::test(start_paused = true)]
async fn collections_run_every_interval_and_keep_what_kubernetes_has() {
    let scene = Scene::new(Options::default()).await;
    scene.have("shop");
    sleep(MINUTE).await;
    assert_eq!(
        (
            scene.storage.lists(),
            scene.server.called("LIST namespaces")
        ),
        (1, 1),
        "one LIST suffices without an orphan"
    );
    scene.storage.create("orphan");
    sleep(MINUTE * 58).await;
    assert!(scene.storage.has("orphan"));
    sleep(MINUTE * 3).await;
    assert!(!scene.storage.has("orphan") && scene.storage.has("shop"));
    assert_eq!(scene.storage.lists(), 2);
    sleep(HOUR * 10).await;
    assert_eq!(scene.storage.lists(), 12);
}

#[tokio::test(start_paused = true)]
async fn ns_19_a_failure_stops_no_other_removal_and_is_retried_before_the_next_collection() {
    let scene = Scene::new(Options::default()).await;
    for name in ["a", "b", "c"] {
        scene.storage.create(name);
    }
    scene.storage.fill("b");
    sleep(MINUTE).await;
    let names: Vec<_> = scene
        .storage
        .state()
        .namespaces
        .iter()
        .map(|each| each.name.clone())
        .collect();
    assert_eq!(names, ["b"]);
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 1"#);
    scene.storage.empty("b");
    sleep(MINUTE * 5).await;
    assert!(!scene.storage.has("b"));
    assert_eq!(
        scene.server.reasons(),
        [
            "NamespaceDeleted",
            "NamespaceNotEmpty",
            "NamespaceDeleted",
            "NamespaceDeleted"
        ]
    );
    scene.shows(r#"gc_runs_total{outcome="Done"} 1"#);
    let action = r#"component="namespace-gc",action="DeleteFromBackend""#;
    scene.shows(&format!(
        "actions_total{{{action},reason=\"Orphan\",outcome=\"Deleted\"}} 3"
    ));
}

#[tokio::test(start_paused = true)]
async fn a_collection_with_failures_is_incomplete() {
    let scene = Scene::new(Options::default()).await;
    scene.storage.create("a");
    let broken = Err(Failure::server("500"));
    scene.storage.state().answers.push_back(broken);
    sleep(MINUTE).await;
    scene.shows(r#"gc_runs_total{outcome="Incomplete"} 1"#);
    assert!(!scene.storage.has("a"), "it was retried");
}

/// A namespace that is not empty is retried on its own schedule, which collections do not change.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_never_empty_does_not_affect_collections() {
    let scene = Scene::new(with(|options| options.max_deletions = 1)).await;
    scene.storage.create("a");
    scene.storage.fill("a");
    sleep(HOUR * 2).await;
    let tries = scene.storage.deletions();
    assert!((7..=16).contains(&tries), "{tries}");
    scene.storage.create("b");
    sleep(HOUR + MINUTE).await;
    assert!(!scene.storage.has("b"), "it does not use up the cap");
    scene.shows(r#"gc_namespaces{verdict="Waiting"} 1"#);
}

#[tokio::test(start_paused = true)]
async fn the_cap_limits_deletions() {
    let scene = Scene::new(with(|options| options.max_deletions = 2)).await;
    for name in ["a", "b", "c", "d", "e"] {
        scene.storage.create(name);
    }
    sleep(MINUTE).await;
    assert_eq!(scene.storage.deletions(), 2);
    scene.shows(r#"gc_namespaces{verdict="OverTheCap"} 3"#);
    let note = {
        let state = scene.server.state();
        let mut events = state.events.iter();
        let capped = events.find(|event| event["reason"] == "TooManyOrphans");
        capped.expect("an Event")["note"].to_string()
    };
    assert!(
        note.contains("5 namespaces")
            && note.contains("--gc-max-deletions")
            && note.contains("3 are left")
            && note.contains("run `/volume-warden gc --dry-run` in a pod of Volume Warden"),
        "{note}"
    );
    sleep(HOUR * 2).await;
    assert_eq!(
        (
            scene.storage.deletions(),
            scene.storage.state().namespaces.len()
        ),
        (5, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_young_namespace_is_left_to_a_later_collection() {
    let scene = Scene::new(Options::default()).await;
    scene.storage.create_since("young", Some(SystemTime::now()));
    scene
        .storage
        .create_since("old", Some(SystemTime::now() - MINUTE * 2));
    sleep(MINUTE * 30).await;
    assert!(scene.storage.has("young") && !scene.storage.has("old"));
    scene.shows(r#"gc_namespaces{verdict="TooYoung"} 1"#);
}

/// A namespace that replaces an orphan gets the grace period of a new one.
#[tokio::test(start_paused = true)]
async fn a_namespace_recreated_in_the_backend_is_not_deleted_as_the_old_one() {
    let scene = Scene::new(Options::default()).await;
    scene.storage.create("a");
    scene.storage.fill("a");
    sleep(SECOND * 40).await;
    assert_eq!(scene.storage.deletions(), 1);
    scene.storage.state().namespaces.clear();
    scene.storage.create_since("a", Some(SystemTime::now()));
    scene.storage.empty("a");
    sleep(MINUTE * 10).await;
    assert!(scene.storage.has("a"));
    assert_eq!(scene.storage.deletions(), 1);
}

/// Test case NS-25 of the specification.
#[tokio::test(start_paused = true)]
async fn a_dry_run_only_reports_orphans() {
    let scene = Scene::new(with(|options| options.dry_run = true)).await;
    for name in ["a", "b", "kube-node-lease"] {
        scene.storage.create(name);
    }
    sleep(MINUTE).await;
    assert_eq!(scene.storage.deletions(), 0);
    scene.shows(r#"gc_namespaces{verdict="Orphan"} 2"#);
    scene.shows(r#"gc_namespaces{verdict="Protected"} 1"#);
    assert_eq!(scene.server.reasons(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn five_hundred_orphans_cost_one_backend_list_and_two_lists_of_kubernetes() {
    let scene = Scene::new(with(|options| options.max_deletions = 0)).await;
    for index in 0..2000 {
        let name = format!("n-{index}");
        scene.storage.create(&name);
        if index % 4 != 0 {
            scene.create_unseen(&name);
        }
    }
    sleep(MINUTE * 2).await;
    let state = scene.storage.state();
    assert_eq!(
        (state.lists, state.deletions.len(), state.namespaces.len()),
        (1, 500, 1500)
    );
    assert_eq!(state.most_in_flight, 5);
    assert_eq!(scene.server.called("LIST namespaces"), 2);
}
