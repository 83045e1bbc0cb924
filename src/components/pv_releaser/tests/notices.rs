//! Tests of the Events of pv-releaser, and of how often they are published.

use super::{
    scene::{Scene, attachment, claim, claimed, labelled},
    *,
};
use crate::{cluster::Reconcile, objects::ObjectName};
use std::time::Duration;

/// Test case PR-13 of the specification.
#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_released_is_reported_once() {
    let scene = Scene::new(cluster());
    let mut deleted = labelled();
    json_patch::merge(
        &mut deleted,
        &json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
    );
    for version in ["5", "6", "7"] {
        scene.watch_volume(version, deleted.clone());
        assert!(scene.reconcile().await);
    }
    assert_eq!(scene.server.reasons(), ["ErrReleasePV"]);
    assert_eq!(
        scene.server.sent("PATCH persistentvolumes"),
        [] as [Value; 0]
    );
    scene.watch_volume("8", labelled());
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.reasons(), ["ErrReleasePV", "Released"]);
}

/// Test case PR-19 of the specification.
#[tokio::test(start_paused = true)]
async fn an_orphan_is_reported_once_and_counted() {
    let scene = Scene::new(cluster());
    for version in ["5", "6"] {
        scene.watch_volume(version, json!({}));
        assert!(scene.reconcile().await);
    }
    let events = scene.server.events();
    let [(reason, note)] = &*events else {
        panic!("{events:?}");
    };
    assert_eq!(reason, "Orphaned");
    let label = format!("label it {RELEASER_LABEL}={}", cluster().id);
    assert!(note.contains("ns/data") && note.contains(&label), "{note}");
    assert!(note.contains("the next claim then sees its data"), "{note}");
    let counted = |count| {
        scene
            .metrics
            .text()
            .contains(&format!("volume_warden_orphaned_volumes {count}\n"))
    };
    assert!(counted(1), "{}", scene.metrics.text());
    scene.watch_volume("7", labelled());
    assert!(counted(0), "{}", scene.metrics.text());
}

/// PR-27: with `--namespace`, claims of other namespaces are not known, but volumes have no
/// namespace.
#[tokio::test(start_paused = true)]
async fn within_a_namespace_labelled_volumes_are_released_all_the_same() {
    let scene = Scene::within(Some("other"), cluster());
    scene.watch_volume("5", json!({}));
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.events(), []);
    scene.watch_volume("6", labelled());
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.reasons(), ["Released"]);
    let scene = Scene::within(Some("ns"), cluster());
    scene.watch_volume("5", json!({}));
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.reasons(), ["Orphaned"]);
}

/// An orphan is reported after a delay, because the watch of claims may lag behind the watch of
/// volumes.
#[tokio::test(start_paused = true)]
async fn a_volume_whose_claim_turns_up_late_was_no_orphan() {
    let scene = Scene::new(cluster());
    scene.watch_volume("5", json!({}));
    let name = ObjectName::cluster_scoped("pv");
    scene.releaser.reconcile(&name).await.expect("settled");
    scene.deliver(&scene.releaser.caches.claims, claim("1", json!(null)));
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.events(), []);
}

/// PR-01 at admission: no Event can be published before the volume exists.
#[tokio::test(start_paused = true)]
async fn a_label_added_at_admission_is_reported_once() {
    let scene = Scene::new(cluster());
    scene.deliver(&scene.releaser.caches.claims, claim("1", claimed()));
    let mut bound = labelled();
    json_patch::merge(&mut bound, &json!({"status": {"phase": "Bound"}}));
    for version in ["5", "6"] {
        scene.watch_volume(version, bound.clone());
        assert!(scene.reconcile().await);
    }
    assert_eq!(scene.server.reasons(), ["Associated"]);
    assert_eq!(
        scene.server.sent("PATCH persistentvolumes"),
        [] as [Value; 0]
    );
}

/// If a user creates a volume with the label, no Event is published.
#[tokio::test(start_paused = true)]
async fn a_manual_label_is_not_reported() {
    let scene = Scene::new(cluster());
    scene.watch_volume("5", labelled());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(scene.server.events(), []);
}

/// The published causes of a deleted volume are forgotten, so that a new volume of the same name is
/// reported again.
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_gone_is_forgotten() {
    let scene = Scene::new(cluster());
    for version in ["5", "6"] {
        scene.watch_volume(version, json!({}));
        assert!(scene.reconcile().await);
        scene.watch_no_volume(version);
        assert!(scene.woken().await && scene.reconcile().await);
    }
    assert_eq!(scene.server.reasons(), ["Orphaned", "Orphaned"]);
}

/// kube-controller-manager detaches a volume within six minutes. If it does not, only an
/// administrator can.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_stays_is_reported_with_its_node() {
    let scene = Scene::new(cluster());
    scene.deliver(&scene.releaser.caches.attachments, attachment("pv"));
    for version in ["5", "6"] {
        scene.watch_volume(version, labelled());
        assert!(scene.reconcile().await);
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(scene.server.events(), [], "detaching takes some time");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let events = scene.server.events();
    let [(reason, note)] = &*events else {
        panic!("{events:?}");
    };
    assert_eq!(reason, "ErrReleasePV");
    assert!(note.contains("node n7 (VolumeAttachment csi-pv)"), "{note}");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_detached_in_time_is_not_reported() {
    let scene = Scene::new(cluster());
    scene.deliver(&scene.releaser.caches.attachments, attachment("pv"));
    scene.watch_volume("5", labelled());
    assert!(scene.reconcile().await);
    scene.lose(&scene.releaser.caches.attachments, attachment("pv"));
    assert!(scene.woken().await && scene.reconcile().await);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(scene.server.reasons(), ["Released"]);
}

/// Another replica may lead and publish the same Event, so its name follows from its content.
#[tokio::test(start_paused = true)]
async fn two_leaders_publish_one_event_about_an_orphan() {
    let mut names = Vec::new();
    for _ in 0..2 {
        let scene = Scene::new(Options::default());
        scene.watch_volume("5", json!({}));
        assert!(scene.reconcile().await);
        let sent = scene.server.sent("POST events");
        names.push(sent[0]["metadata"]["name"].clone());
    }
    assert!(names[0].is_string() && names[0] == names[1], "{names:?}");
}

/// A watch that knows the claim proves that the volume may be in use.
#[tokio::test(start_paused = true)]
async fn a_claim_that_exists_prevents_the_release() {
    let scene = Scene::new(cluster());
    scene.deliver(&scene.releaser.caches.claims, claim("1", claimed()));
    scene.watch_volume("5", labelled());
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.sent("PATCH persistentvolumes").len(), 0);
    scene.lose(&scene.releaser.caches.claims, claim("1", claimed()));
    assert!(scene.woken().await && scene.reconcile().await);
    assert_eq!(scene.server.reasons(), ["Associated", "Released"]);
}
