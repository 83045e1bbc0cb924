//! Tests of the writes of the pv-releaser reconciler, and of their results.

use super::{
    parking::{parked, reserved, wanted},
    scene::{Scene, attachment, claim, claimed, labelled},
    *,
};
use crate::{
    cluster::{Lane, Reconcile},
    objects::{ObjectName, trash::TRASH},
};
use std::time::Duration;
use tokio::time::sleep;

/// Test cases PR-09 and PR-11 of the specification.
#[tokio::test(start_paused = true)]
async fn a_volume_is_released_once() {
    let scene = Scene::new(cluster());
    scene.watch_volume("5", labelled());
    assert!(scene.reconcile().await);
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "pv-uid"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
        {"op": "remove", "path": "/spec/claimRef"},
        {"op": "remove", "path": "/metadata/labels/reclaimable-pv-releaser.kubernetes.io~1managed-by"},
    ]);
    assert_eq!(scene.server.sent("PATCH persistentvolumes"), [expected]);
    assert!(scene.reconcile().await, "before the watch shows it");
    for version in ["6", "7", "8"] {
        scene.watch_volume(version, json!({"spec": {"claimRef": null}}));
        assert!(scene.reconcile().await);
    }
    assert_eq!(scene.server.sent("PATCH persistentvolumes").len(), 1);
    assert_eq!(scene.server.reasons(), ["Released"]);
    assert_eq!(scene.server.sent("GET volumeattachments").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attached_volume_is_left_until_it_is_detached() {
    let scene = Scene::new(cluster());
    scene.server.attached.lock().push("pv");
    scene.watch_volume("5", labelled());
    assert!(
        !scene.reconcile().await,
        "the watch has not shown it, so nothing would enqueue the volume"
    );
    let attachments = &scene.releaser.caches.attachments;
    scene.deliver(attachments, attachment("pv"));
    assert!(scene.reconcile().await && scene.woken().await);
    assert_eq!(
        scene.server.sent("GET volumeattachments").len(),
        1,
        "the watch proves it"
    );
    scene.server.attached.lock().clear();
    scene.lose(attachments, attachment("pv"));
    assert!(scene.woken().await && scene.server.sent("PATCH persistentvolumes").is_empty());
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.sent("PATCH persistentvolumes").len(), 1);
}

/// PR-14 and PR-15: the changed volume is evaluated again.
#[tokio::test(start_paused = true)]
async fn a_volume_that_changed_meanwhile_is_no_error() {
    let scene = Scene::new(cluster());
    scene.watch_volume("5", labelled());
    scene
        .server
        .answers
        .lock()
        .extend([(422, "the test failed"), (409, "conflict")]);
    assert!(!scene.reconcile().await && !scene.reconcile().await);
    assert_eq!(scene.server.events(), []);
    let mut rebound = labelled();
    json_patch::merge(
        &mut rebound,
        &json!({"status": {"phase": "Bound"}, "spec": {"claimRef": {"uid": "2"}}}),
    );
    scene.watch_volume("6", rebound);
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.sent("PATCH persistentvolumes").len(), 2);
}

/// Test case PR-24 of the specification.
#[tokio::test(start_paused = true)]
async fn a_failed_write_is_reported_and_retried() {
    let scene = Scene::new(cluster());
    scene.watch_volume("5", labelled());
    scene.server.answers.lock().push_back((500, "etcd is away"));
    assert!(!scene.reconcile().await);
    let (reason, note) = scene.server.events().remove(0);
    assert_eq!(reason, "ErrReleasePV");
    assert!(note.ends_with("etcd is away") && note.len() < 100, "{note}");
    assert!(scene.reconcile().await && scene.reconcile().await);
    assert_eq!(scene.server.reasons(), ["ErrReleasePV", "Released"]);
}

/// The volume was deleted, which the watch has not delivered yet.
#[tokio::test(start_paused = true)]
async fn no_event_says_that_a_volume_which_does_not_exist_was_changed() {
    let bound = json!({"status": {"phase": "Bound"}});
    for (changes, uid, reason) in [(labelled(), "2", "Released"), (bound, "1", "Associated")] {
        for absent in [true, false] {
            let scene = Scene::new(cluster());
            scene.deliver(&scene.releaser.caches.claims, claim(uid, claimed()));
            scene.watch_volume("5", changes.clone());
            let answer = absent.then_some((404, "not found"));
            scene.server.answers.lock().extend(answer);
            assert_eq!(scene.reconcile().await, !absent, "{reason}");
            let done = format!("reason=\"{reason}\",outcome=\"Done\"");
            assert_eq!(scene.metrics.text().contains(&done), !absent, "{done}");
            let expected = Vec::from_iter((!absent).then_some(reason));
            assert_eq!(scene.server.reasons(), expected, "{reason}");
        }
    }
}

/// A reserved volume of a deleted namespace is parked, unless it does not exist any more.
#[tokio::test(start_paused = true)]
async fn no_event_says_that_a_volume_which_does_not_exist_was_parked() {
    for absent in [true, false] {
        let scene = Scene::new(Options::default());
        scene.watch_volume("5", reserved("n", None));
        let answer = absent.then_some((404, "not found"));
        scene.server.answers.lock().extend(answer);
        assert_eq!(scene.reconcile().await, !absent);
        let expected = Vec::from_iter((!absent).then_some("Parked"));
        assert_eq!(scene.server.reasons(), expected);
    }
}

/// A volume is labelled only once it is Bound: until then the binder writes the volume, and its
/// write would fail with a conflict.
#[tokio::test(start_paused = true)]
async fn a_volume_is_labelled_once_it_is_bound() {
    let scene = Scene::new(cluster());
    scene.deliver(&scene.releaser.caches.claims, claim("1", claimed()));
    for (version, phase, patches) in [
        ("5", "Pending", 0),
        ("6", "Available", 0),
        ("7", "Bound", 1),
    ] {
        scene.watch_volume(version, json!({"status": {"phase": phase}}));
        assert!(scene.reconcile().await);
        let written = scene.server.sent("PATCH persistentvolumes").len();
        assert_eq!(written, patches, "{phase}");
    }
}

/// No event follows a reservation that failed, so the reconcile fails and is retried.
#[tokio::test(start_paused = true)]
async fn a_failed_reservation_of_a_waiting_claim_is_retried() {
    let scene = Scene::new(Options::default());
    *scene.server.namespace.lock() = Some("n");
    *scene.server.claim.lock() = Some(wanted(json!({})));
    scene.watch_volume("5", parked("n"));
    scene.deliver(&scene.releaser.caches.claims, wanted(json!({})));
    let answers = [(500, "etcd is away"), (409, "conflict")];
    scene.server.answers.lock().extend(answers);
    let name = ObjectName::new("ns", "data");
    let mut failed = Vec::new();
    for _ in 0..3 {
        failed.push(scene.releaser.reconcile(&name).await.is_err());
    }
    assert_eq!(failed, [true, true, false]);
    assert_eq!(scene.server.sent("PATCH persistentvolumes").len(), 3);
}

/// Meanwhile, the claim may be replaced by one of another class, which kube-controller-manager
/// would bind to the volume, or the namespace by one of other users.
#[tokio::test(start_paused = true)]
async fn a_reservation_that_waits_for_other_writes_is_decided_again() {
    for (is_replaced, seconds, sent) in [(false, 5, 1), (true, 5, 0), (false, 30, 0)] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = Some("n");
        *scene.server.claim.lock() = Some(wanted(json!({})));
        scene.watch_volume("5", parked("n"));
        let claims = &scene.releaser.caches.claims;
        scene.deliver(claims, wanted(json!({})));
        let lanes = &scene.releaser.apply.lanes;
        let other = lanes.permit(Lane::Release, &"".into()).await;
        let ends = async {
            sleep(Duration::from_secs(seconds)).await;
            if is_replaced {
                scene.deliver(claims, wanted(json!({"metadata": {"uid": "3"}})));
            }
            drop(other);
        };
        let name = ObjectName::new("ns", "data");
        let (reserved, ()) = tokio::join!(scene.releaser.reconcile(&name), ends);
        let patches = scene.server.sent("PATCH persistentvolumes");
        assert_eq!(patches.len(), sent, "{is_replaced} {seconds}");
        assert_eq!(reserved.is_ok(), sent == 1, "{is_replaced} {seconds}");
    }
}

/// A conflict may mean that a review has just reserved the volume for the same claim.
#[tokio::test(start_paused = true)]
async fn a_conflict_reserves_no_second_volume() {
    let scene = Scene::new(Options::default());
    *scene.server.namespace.lock() = Some("n");
    *scene.server.claim.lock() = Some(wanted(json!({})));
    for name in ["a", "b"] {
        let mut changes = parked("n");
        changes["metadata"]["name"] = json!(name);
        changes["metadata"]["uid"] = json!(name);
        changes["spec"]["claimRef"]["name"] = json!(format!("parked-{name}"));
        scene.watch_volume("5", changes);
    }
    scene.deliver(&scene.releaser.caches.claims, wanted(json!({})));
    scene.server.answers.lock().push_back((409, "conflict"));
    let name = ObjectName::new("ns", "data");
    assert!(scene.releaser.reconcile(&name).await.is_err());
    assert_eq!(scene.server.sent("PATCH persistentvolumes").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_namespace_that_has_opted_out_gets_no_parked_volume() {
    for (excluded, expected) in [("true", 0), ("false", 1)] {
        let scene = Scene::new(Options::default());
        let labels = json!({"volume-warden.dev/exclude": excluded});
        let namespace = json!({"metadata": {"name": "ns", "uid": "n", "labels": labels}});
        scene.deliver(&scene.releaser.caches.namespaces, namespace);
        *scene.server.namespace.lock() = Some("n");
        *scene.server.claim.lock() = Some(wanted(json!({})));
        scene.watch_volume("5", parked("n"));
        scene.deliver(&scene.releaser.caches.claims, wanted(json!({})));
        let claim = ObjectName::new("ns", "data");
        assert!(scene.releaser.reconcile(&claim).await.is_ok());
        let written = scene.server.sent("PATCH persistentvolumes").len();
        assert_eq!(written, expected, "{excluded}");
    }
}

/// A reserved volume with the label of another installation, or one that pvc-trash keeps, is not
/// parked, although its namespace was recreated.
#[tokio::test(start_paused = true)]
async fn a_reserved_volume_of_another_installation_or_in_the_trash_is_left_unchanged() {
    let trash = json!({"metadata": {"annotations": {TRASH: "{}"}}});
    let own = label(RELEASER_LABEL, &US);
    for (row, changes, expected) in [
        ("own", own, 1),
        ("another", label(RELEASER_LABEL, "another"), 0),
        ("in the trash", trash, 0),
    ] {
        let scene = Scene::new(Options::default());
        *scene.server.namespace.lock() = Some("recreated");
        scene.watch_volume("5", changed(reserved("n", None), changes));
        let review = super::parking::review(&wanted(json!({})), false);
        let waiting = scene.releaser.caches.waiting_in(&"ns".into()).len();
        assert_eq!(waiting, expected, "{row}");
        assert!(scene.reconcile().await, "{row}");
        let written = scene.server.sent("PATCH persistentvolumes").len();
        assert_eq!(written, expected, "{row}");
        let answer = scene.releaser.reservations.review(&review).await;
        assert!(answer.is_ok(), "{row}: {answer:?}");
        let written = scene.server.sent("PATCH persistentvolumes").len();
        assert_eq!(written, expected, "{row}");
    }
}
