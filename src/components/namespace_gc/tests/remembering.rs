//! Tests of the record of the namespace names that this cluster once had.

use super::{
    scene::{HOUR, MINUTE, SECOND, Scene},
    seen::{LIMIT, fit},
    server::Server,
    *,
};
use crate::cluster::test_server::answering;
use futures::future::join_all;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::sleep;

pub(super) fn seen() -> Options {
    Options {
        scope: Scope::Seen,
        ..Options::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_recorded_as_soon_as_the_watch_reports_it() {
    let scene = Scene::new(seen()).await;
    assert_eq!(scene.server.recorded(), "default kube-system");
    scene.create("shop");
    scene.create("web");
    sleep(SECOND).await;
    assert_eq!(scene.server.recorded(), "default kube-system shop web");
    assert_eq!(scene.server.called("PUT configmaps"), 1, "both at once");
    scene.deliver("shop", true);
    sleep(HOUR / 2).await;
    assert_eq!(scene.server.called("PUT configmaps"), 1);
    scene.shows(r#"seen_namespaces{state="Recorded"} 4"#);
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_records() {
    let scene = Scene::following(seen());
    scene.create("shop");
    scene.create("short");
    scene.delete("short");
    sleep(HOUR).await;
    assert_eq!(scene.server.state().calls, [""; 0]);
    scene.gain_lead();
    sleep(SECOND * 2).await;
    assert_eq!(
        scene.server.recorded(),
        "default kube-system shop",
        "all existing namespaces"
    );
}

/// No replica led while the namespace existed.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_no_leader_saw_is_recorded_by_the_next_one() {
    let scene = Scene::following(seen());
    scene.create("short");
    scene.delete("short");
    sleep(SECOND * 15).await;
    scene.gain_lead();
    sleep(SECOND * 2).await;
    assert_eq!(scene.server.recorded(), "default kube-system short");
}

#[tokio::test(start_paused = true)]
async fn names_written_by_others_meanwhile_are_kept() {
    // Collections are disabled, because one would remove names that neither Kubernetes nor the
    // backend has.
    let options = Options {
        interval: Duration::ZERO,
        ..seen()
    };
    let scene = Scene::new(options).await;
    scene.server.record("team\n");
    scene.server.fail("PUT configmaps", 409, 2);
    scene.create("shop");
    sleep(SECOND).await;
    assert_eq!(scene.server.recorded(), "shop team");
    scene.server.fail("PUT configmaps", 500, 3);
    scene.create("web");
    sleep(MINUTE).await;
    assert_eq!(scene.server.recorded(), "shop team web", "retried");
}

/// A record that is deleted, or replaced by that of a backup, lacks names that no watch event adds.
#[tokio::test(start_paused = true)]
async fn a_collection_records_the_names_that_are_missing() {
    let scene = Scene::new(seen()).await;
    scene.server.state().config_map = None;
    sleep(HOUR * 2).await;
    assert_eq!(scene.server.recorded(), "default kube-system");
    let dry = Options {
        dry_run: true,
        ..seen()
    };
    let scene = Scene::new(dry).await;
    scene.server.state().config_map = None;
    sleep(HOUR * 2).await;
    assert!(scene.server.state().config_map.is_none());
}

#[tokio::test(start_paused = true)]
async fn names_that_this_cluster_never_had_are_kept() {
    let scene = Scene::new(seen()).await;
    scene.server.record("own\n");
    scene.storage.create("own");
    scene.storage.create("other");
    sleep(MINUTE).await;
    assert!(!scene.storage.has("own") && scene.storage.has("other"));
    scene.shows(r#"gc_namespaces{verdict="NotSeen"} 1"#);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_deletes_nothing() {
    let scene = Scene::new(seen()).await;
    scene.server.record("own\n");
    scene.storage.create("own");
    scene.server.fail("GET configmaps", 403, 3);
    sleep(SECOND * 30).await;
    assert_eq!((scene.storage.deletions(), scene.storage.lists()), (0, 0));
    scene.shows(r#"gc_runs_total{outcome="SeenFailed"} 2"#);
    sleep(MINUTE * 2).await;
    assert!(!scene.storage.has("own"));
}

/// A ConfigMap that was copied from another cluster, with a backup or by a repository, is not used.
#[tokio::test(start_paused = true)]
async fn another_clusters_record_deletes_nothing_and_is_not_written() {
    let scene = Scene::new(seen()).await;
    let written = scene.server.state().config_map.clone().expect("recorded");
    let cluster = "volume-warden.dev/cluster";
    assert_eq!(
        written["metadata"]["annotations"][cluster],
        "uid-kube-system"
    );
    scene.server.record("other\n");
    if let Some(map) = &mut scene.server.state().config_map {
        map["metadata"]["annotations"] = serde_json::json!({ cluster: "another" });
    }
    scene.storage.create("other");
    scene.create("shop");
    sleep(MINUTE * 10).await;
    assert_eq!((scene.storage.deletions(), scene.storage.lists()), (0, 0));
    assert_eq!(scene.server.recorded(), "other");
    let text = scene.metrics.text();
    assert!(
        !text.contains("gc_runs_total{outcome=\"SeenFailed\"} 0\n"),
        "{text}"
    );
}

/// A name that neither Kubernetes nor the backend has is removed from the record: if the name
/// reappears in the backend, it belongs to another user of the storage.
#[tokio::test(start_paused = true)]
async fn a_name_that_exists_nowhere_is_forgotten() {
    let scene = Scene::new(seen()).await;
    scene.have("shop");
    scene
        .server
        .record("default\nfull\nkube-system\nlost\nown\nshop\n");
    scene.storage.create("own");
    scene.storage.create("full");
    scene.storage.fill("full");
    sleep(MINUTE).await;
    assert_eq!(scene.server.recorded(), "default full kube-system shop");
    scene.storage.create("lost");
    sleep(HOUR).await;
    assert!(scene.storage.has("lost"));
}

/// Another cluster may create a namespace of that name in the same storage at once.
#[tokio::test(start_paused = true)]
async fn the_name_of_a_removed_namespace_is_forgotten_at_once() {
    let options = Options {
        interval: Duration::ZERO,
        ..seen()
    };
    let scene = Scene::new(options).await;
    for name in ["ci-1", "ci-2", "ci-3", "full"] {
        scene.have(name);
    }
    scene.storage.fill("full");
    sleep(SECOND).await;
    for name in ["ci-1", "ci-2", "ci-3", "full"] {
        scene.delete(name);
    }
    sleep(MINUTE).await;
    assert_eq!(scene.server.recorded(), "default full kube-system");
}

/// The first call writes the ConfigMap, and the second one does so for all others.
#[tokio::test]
async fn names_that_are_removed_at_the_same_time_are_forgotten_together() {
    let server = Arc::new(Server::default());
    server.state().namespaces.insert("kube-system".to_owned());
    let names: Vec<_> = (0..10).map(|number| format!("ci-{number}")).collect();
    server.record(&format!("{}\nshop\n", names.join("\n")));
    let called = server.clone();
    let client = answering(move |head, sent| called.answer(head, sent));
    let seen = Seen::new(client, "system");
    let back = |name: &str| name == "ci-7";
    let forgotten = names.iter().map(|name| seen.forget_removed(name, back));
    for forgotten in join_all(forgotten).await {
        forgotten.expect("the ConfigMap is written");
    }
    assert_eq!(server.recorded(), "ci-7 shop");
    for call in ["GET configmaps", "PUT configmaps"] {
        assert_eq!(server.called(call), 2, "{call}");
    }
}

/// A name is kept in the record if the watch has the namespace, although the LIST was too early.
#[tokio::test(start_paused = true)]
async fn a_name_that_exists_again_is_not_forgotten() {
    let scene = Scene::new(seen()).await;
    scene.server.record("back\ndefault\nkube-system\n");
    scene.deliver("back", true);
    sleep(MINUTE).await;
    assert_eq!(scene.server.called("LIST namespaces"), 1);
    assert_eq!(scene.server.recorded(), "back default kube-system");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_records_and_forgets_nothing() {
    let options = Options {
        dry_run: true,
        ..seen()
    };
    let scene = Scene::new(options).await;
    scene.server.record("lost\n");
    scene.create("shop");
    sleep(MINUTE).await;
    assert_eq!(scene.server.recorded(), "lost");
}

#[test]
fn new_names_that_do_not_fit_are_left_out_and_recorded_ones_kept() {
    let set = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    };
    let mut names = set(&["aaa", "bbb"]);
    let recorded = fit(&mut names, &set(&["aaa", "cccc", "dd"]), 11);
    assert_eq!(names, set(&["aaa", "bbb", "dd"]));
    assert_eq!((recorded.names, recorded.left_out), (3, 1));
    let recorded = fit(&mut names, &set(&["e"]), 2);
    assert_eq!(
        (recorded.names, recorded.left_out),
        (3, 1),
        "over the limit, but no name is lost"
    );
    let many: BTreeSet<_> = (0..20_000).map(|index| format!("{index:063}")).collect();
    let mut names = BTreeSet::new();
    let recorded = fit(&mut names, &many, LIMIT);
    assert_eq!(recorded.names, LIMIT / 64);
    assert_eq!(recorded.left_out, 20_000 - LIMIT / 64);
}
