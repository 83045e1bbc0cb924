//! The names that this cluster once had.

use super::{
    scene::{HOUR, MINUTE, SECOND, Scene},
    seen::{LIMIT, fit},
    *,
};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::sleep;

fn seen() -> Options {
    Options {
        scope: Scope::Seen,
        ..Options::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_recorded_as_soon_as_the_watch_tells_of_it() {
    let scene = Scene::new(seen()).await;
    assert_eq!(scene.server.recorded(), "default kube-system");
    scene.create("shop");
    scene.create("web");
    sleep(SECOND).await;
    assert_eq!(scene.server.recorded(), "default kube-system shop web");
    assert_eq!(scene.server.called("PUT configmaps"), 1, "both at once");
    scene.hear("shop", true);
    sleep(HOUR / 2).await;
    assert_eq!(scene.server.called("PUT configmaps"), 1);
    scene.shows(r#"seen_namespaces{state="Recorded"} 4"#);
}

#[tokio::test(start_paused = true)]
async fn only_who_leads_records() {
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
        "all that is there now"
    );
}

#[tokio::test(start_paused = true)]
async fn what_others_wrote_meanwhile_is_kept() {
    // A collection would forget what is nowhere.
    let options = Options {
        interval: Duration::ZERO,
        ..seen()
    };
    let scene = Scene::new(options).await;
    scene.server.record("theirs\n");
    scene.server.fail("PUT configmaps", 409, 2);
    scene.create("shop");
    sleep(SECOND).await;
    assert_eq!(scene.server.recorded(), "shop theirs");
    scene.server.fail("PUT configmaps", 500, 3);
    scene.create("web");
    sleep(MINUTE).await;
    assert_eq!(scene.server.recorded(), "shop theirs web", "tried again");
}

#[tokio::test(start_paused = true)]
async fn no_name_goes_that_this_cluster_never_had() {
    let scene = Scene::new(seen()).await;
    scene.server.record("ours\n");
    scene.storage.create("ours");
    scene.storage.create("theirs");
    sleep(MINUTE).await;
    assert!(!scene.storage.has("ours") && scene.storage.has("theirs"));
    scene.shows(r#"gc_namespaces{verdict="NotSeen"} 1"#);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_lets_nothing_go() {
    let scene = Scene::new(seen()).await;
    scene.server.record("ours\n");
    scene.storage.create("ours");
    scene.server.fail("GET configmaps", 403, 3);
    sleep(SECOND * 30).await;
    assert_eq!((scene.storage.deletions(), scene.storage.lists()), (0, 0));
    scene.shows(r#"gc_runs_total{outcome="SeenFailed"} 2"#);
    sleep(MINUTE * 2).await;
    assert!(!scene.storage.has("ours"));
}

/// Copied from another cluster, with a backup or by a repository.
#[tokio::test(start_paused = true)]
async fn another_clusters_record_lets_nothing_go_and_is_not_written_to() {
    let scene = Scene::new(seen()).await;
    let written = scene.server.state().config_map.clone().expect("recorded");
    let cluster = "volume-warden.dev/cluster";
    assert_eq!(
        written["metadata"]["annotations"][cluster],
        "uid-kube-system"
    );
    scene.server.record("theirs\n");
    if let Some(map) = &mut scene.server.state().config_map {
        map["metadata"]["annotations"] = serde_json::json!({ cluster: "another" });
    }
    scene.storage.create("theirs");
    scene.create("shop");
    sleep(MINUTE * 10).await;
    assert_eq!((scene.storage.deletions(), scene.storage.lists()), (0, 0));
    assert_eq!(scene.server.recorded(), "theirs");
    let text = scene.metrics.text();
    assert!(
        text.contains(r#"gc_runs_total{outcome="SeenFailed"}"#),
        "{text}"
    );
}

/// Neither here nor there: should the name come back in the backend, it is somebody else's.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_nowhere_any_more_is_forgotten() {
    let scene = Scene::new(seen()).await;
    scene.have("shop");
    scene
        .server
        .record("default\nfull\nkube-system\nlost\nours\nshop\n");
    scene.storage.create("ours");
    scene.storage.create("full");
    scene.storage.fill("full");
    sleep(MINUTE).await;
    assert_eq!(scene.server.recorded(), "default full kube-system shop");
    scene.storage.create("lost");
    sleep(HOUR).await;
    assert!(scene.storage.has("lost"));
}

/// The watch knows of it, although the LIST was too early.
#[tokio::test(start_paused = true)]
async fn a_name_that_exists_again_is_not_forgotten() {
    let scene = Scene::new(seen()).await;
    scene.server.record("back\ndefault\nkube-system\n");
    scene.hear("back", true);
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
fn what_does_not_fit_is_left_out_and_what_is_there_stays() {
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
        "fuller than it may be, but nothing is lost"
    );
    let many: BTreeSet<_> = (0..20_000).map(|index| format!("{index:063}")).collect();
    let mut names = BTreeSet::new();
    let recorded = fit(&mut names, &many, LIMIT);
    assert_eq!(recorded.names, LIMIT / 64);
    assert_eq!(recorded.left_out, 20_000 - LIMIT / 64);
}
