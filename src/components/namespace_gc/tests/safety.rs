//! Tests of collections that must not delete, and of how they recover.

use super::{
    scene::{HOUR, MINUTE, SECOND, Scene},
    *,
};
use crate::{backend::Failure, objects::ObjectName};
use tokio::time::sleep;

/// Waits until shortly before the first collection. The collection lists the backend for 0.1 s, and
/// waits 10 s between its two LISTs of Kubernetes.
async fn until_it_begins() {
    sleep(SECOND * 19).await;
}

#[tokio::test(start_paused = true)]
async fn ns_20_a_namespace_created_in_both_meanwhile_is_kept() {
    for wait in [SECOND / 20, SECOND * 5] {
        let scene = Scene::following(Options::default());
        scene.gain_lead();
        sleep(SECOND * 20).await;
        scene.storage.create("orphan");
        sleep(SECOND / 1000).await;
        let listed = scene.storage.lists();
        sleep(wait).await;
        scene.create_unseen("orphan");
        sleep(MINUTE).await;
        assert_eq!(listed, 1, "the backend was being listed");
        let reads = scene.server.called("GET namespaces");
        assert_eq!(reads, 0, "the LISTs are enough");
        assert!(
            scene.storage.has("orphan") && scene.storage.deletions() == 0,
            "{wait:?}"
        );
    }
}

/// A namespace that appears in Kubernetes between the second LIST and the deletion is kept.
#[tokio::test(start_paused = true)]
async fn ns_20_the_last_live_read_immediately_precedes_the_deletion() {
    let options = Options {
        workers: 1,
        ..Options::default()
    };
    let scene = Scene::new(options).await;
    for name in ["a", "b", "c"] {
        scene.storage.create(name);
    }
    until_it_begins().await;
    scene.deleted(1).await;
    scene.create_unseen("c");
    sleep(MINUTE).await;
    assert_eq!(
        ["a", "b", "c"].map(|name| scene.storage.has(name)),
        [false, false, true]
    );
    assert_eq!(scene.storage.deletions(), 2);
}

/// A namespace that is an orphan in only one of the two LISTs is left to the watch.
#[tokio::test(start_paused = true)]
async fn a_namespace_deleted_between_the_lists_is_not_collected() {
    let scene = Scene::new(Options::default()).await;
    scene.storage.create("orphan");
    scene.storage.create("late");
    scene.create_unseen("late");
    until_it_begins().await;
    sleep(SECOND * 5).await;
    scene.delete_unseen("late");
    sleep(MINUTE).await;
    assert!(!scene.storage.has("orphan") && scene.storage.has("late"));
    sleep(HOUR).await;
    assert!(!scene.storage.has("late"));
}

#[tokio::test(start_paused = true)]
async fn ns_21_a_list_of_kubernetes_that_failed_deletes_nothing() {
    // Cases: the first LIST fails, the second LIST fails, and both fail.
    for fails in [&[500][..], &[0, 500], &[500, 0, 503]] {
        let scene = Scene::new(Options::default()).await;
        scene.storage.create("orphan");
        for code in fails {
            scene.server.fail("LIST namespaces", *code, 1);
        }
        sleep(SECOND * 31).await;
        let deletions = scene.storage.deletions();
        assert_eq!(deletions, 0, "{fails:?}");
        sleep(MINUTE).await;
        assert!(!scene.storage.has("orphan"), "{fails:?}: retried soon");
        let text = scene.metrics.text();
        assert!(
            !text.contains("gc_runs_total{outcome=\"KubernetesFailed\"} 0\n"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn ns_21_an_empty_list_of_kubernetes_deletes_nothing() {
    let scene = Scene::new(Options::default()).await;
    scene.storage.create("orphan");
    let namespaces = std::mem::take(&mut scene.server.state().namespaces);
    sleep(MINUTE * 10).await;
    assert_eq!(scene.storage.deletions(), 0);
    assert!(scene.storage.lists() > 3, "it is retried soon");
    scene.server.state().namespaces = namespaces;
    sleep(MINUTE * 6).await;
    assert!(!scene.storage.has("orphan"));
}

#[tokio::test(start_paused = true)]
async fn ns_22_without_a_list_of_the_backend_nothing_is_deleted() {
    let scene = Scene::new(Options::default()).await;
    scene.storage.create("orphan");
    scene
        .storage
        .state()
        .lists_fail
        .extend((0..3).map(|_| Failure::server("500")));
    sleep(SECOND * 25).await;
    assert_eq!(
        (
            scene.server.called("LIST namespaces"),
            scene.storage.deletions()
        ),
        (0, 0)
    );
    sleep(MINUTE * 2).await;
    assert!(!scene.storage.has("orphan"));
    scene.shows(r#"gc_runs_total{outcome="BackendFailed"} 3"#);
}

#[tokio::test(start_paused = true)]
async fn ns_23_only_the_leader_collects() {
    let scene = Scene::following(Options::default());
    scene.storage.create("orphan");
    scene.storage.create("shop");
    scene.create("shop");
    scene.delete("shop");
    sleep(HOUR * 2).await;
    assert_eq!(
        (
            scene.storage.lists(),
            scene.server.called("LIST namespaces")
        ),
        (0, 0)
    );
    scene.gain_lead();
    sleep(SECOND * 25).await;
    assert_eq!(scene.storage.lists(), 1, "it waits between its LISTs");
    scene.lose_lead();
    sleep(HOUR * 2).await;
    assert_eq!((scene.storage.lists(), scene.storage.deletions()), (1, 0));
    scene.gain_lead();
    sleep(MINUTE).await;
    assert_eq!(
        scene.storage.deletions(),
        2,
        "also the deletion that the watch missed"
    );
}

/// The Lease can expire without a notification, so it is checked immediately before the deletion.
#[tokio::test(start_paused = true)]
async fn ns_23_the_leadership_is_checked_before_each_deletion() {
    let options = Options {
        workers: 1,
        ..Options::default()
    };
    let scene = Scene::new(options).await;
    for name in ["a", "b", "c", "d"] {
        scene.storage.create(name);
    }
    until_it_begins().await;
    scene.deleted(2).await;
    scene.lose_lead();
    sleep(HOUR).await;
    assert_eq!(scene.storage.deletions(), 2);
    scene.shows(r#"namespaces_waiting{reason="NotEmpty"} 0"#);
}

/// A process that was paused notices at the check of the Lease before a deletion that it has lost
/// the lead, before its other tasks notice.
#[tokio::test(start_paused = true)]
async fn ns_23_a_replica_that_does_not_lead_never_deletes() {
    let scene = Scene::following(Options::default());
    scene.storage.create("orphan");
    let name = ObjectName::cluster_scoped("orphan");
    let removal = scene
        .remover
        .remove(&name, Origin::RecentlyDeleted, None)
        .await;
    assert_eq!(
        (removal, scene.storage.deletions()),
        (Removal::NotLeading, 0)
    );
    scene.gain_lead();
    let removal = scene
        .remover
        .remove(&name, Origin::RecentlyDeleted, None)
        .await;
    assert_eq!((removal, scene.storage.deletions()), (Removal::Deleted, 1));
}

#[tokio::test(start_paused = true)]
async fn collections_continue_after_a_panic() {
    let scene = Scene::new(Options::default()).await;
    scene.storage.create("orphan");
    scene.storage.state().panics = 1;
    sleep(MINUTE * 2).await;
    assert!(!scene.storage.has("orphan"));
    scene.shows(r#"gc_runs_total{outcome="Panicked"} 1"#);
}
