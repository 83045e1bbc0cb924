//! Tests of the webhook's answers about claims that are created again with their name.

use super::{
    record,
    scene::{Scene, Server},
};
use crate::{
    admission::{Answer, Request, Reviewed},
    components::pvc_trash::webhooks::{Reviews, hooks},
    objects::{
        rebind::REBIND,
        trash::{TRASH, UNDELETE},
    },
};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

const DELETED: &str = "2026-01-01T00:00:00Z";

/// A cluster with the deleted claim `ns/data` of the class `fast` in the trash.
struct Cluster {
    scene: Scene,
}

impl Cluster {
    /// Creates the cluster: its namespace has this uid, and its class this value of the annotation
    /// for rebinding.
    fn new(namespace: &'static str, rebind: &str, unreadable: Option<&'static str>) -> Self {
        let time: Timestamp = DELETED.parse().expect("a time");
        let server = Server {
            created: Mutex::default(),
            claims: Vec::new(),
            namespace: Some(namespace),
            others: Vec::new(),
            attached: None,
            unreadable,
            refuses: false,
            slow: None,
            interrupts: None,
            time,
            patches: Mutex::default(),
            stored: Mutex::default(),
            writes: Mutex::default(),
        };
        let kept = record("1", json!({"deletedAt": DELETED}));
        let volume = json!({
            "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: kept.to_string()}},
            "spec": {"persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast",
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "ns", "name": "data", "uid": "1"}},
            "status": {"phase": "Released"},
        });
        let scene = Scene::new(server, time, volume, &[]);
        let class = json!({"metadata": {"name": "fast", "uid": "c",
            "annotations": {REBIND: rebind, "volume-warden.dev/undelete-window": "1h"}}});
        let class = serde_json::from_value(class).expect("a class");
        scene.reconciler.caches.classes.list(vec![class]);
        Self { scene }
    }

    async fn review(&self, claim: Value) -> Reviewed {
        let hooks = hooks(&Arc::new(Reviews {
            caches: self.scene.reconciler.caches.clone(),
            live: self.scene.reconciler.live.clone(),
        }));
        let request = json!({
            "uid": "review", "operation": "CREATE", "namespace": "ns",
            "name": claim["metadata"]["name"], "object": claim,
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
        });
        let request: Request = serde_json::from_value(request).expect("a request");
        hooks[1].review.answer(Arc::new(request)).await
    }

    async fn answer(&self, changes: Value) -> Answer {
        self.review(claim(changes)).await.expect("an answer")
    }
}

fn claim(changes: Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}},
    });
    json_patch::merge(&mut claim, &changes);
    claim
}

fn annotated(value: &str) -> Value {
    json!({"metadata": {"annotations": {REBIND: value}}})
}

/// The claim after the patch, and the warnings.
fn patched(answer: Answer, changes: Value) -> (Value, Vec<String>) {
    let Answer::Patch {
        operations,
        warnings,
        ..
    } = answer
    else {
        unreachable!("{answer:?}");
    };
    let mut claim = claim(changes);
    json_patch::patch(&mut claim, &operations).expect("applies");
    (claim, warnings)
}

#[tokio::test]
async fn a_claim_names_its_earlier_volume_and_the_user_learns_how_to_get_a_new_one() {
    let cluster = Cluster::new("n", "same-name", None);
    for changes in [
        json!({}),
        json!({"metadata": {"annotations": {"team": "a"}}}),
    ] {
        let answer = cluster.answer(changes.clone()).await;
        let (claim, warnings) = patched(answer, changes);
        assert_eq!(claim["spec"]["volumeName"], "pv");
        assert_eq!(claim["metadata"]["annotations"][UNDELETE], "pvc/data");
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].contains(r#"volume-warden.dev/rebind: "off""#),
            "{warnings:?}"
        );
    }
}

/// The watch of this replica may be minutes late.
#[tokio::test]
async fn a_volume_that_was_purged_meanwhile_is_not_named() {
    let cluster = Cluster::new("n", "same-name", None);
    cluster.scene.server.stored.lock().0 = Value::Null;
    assert_eq!(cluster.answer(json!({})).await, Answer::Allow);
    // Nor is that of an earlier claim, which was not read.
    let earlier = record("0", json!({"deletedAt": "2025-12-31T23:59:59Z"}));
    let earlier = json!({
        "metadata": {"name": "earlier", "uid": "e", "annotations": {TRASH: earlier.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast",
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "ns", "name": "data", "uid": "0"}},
        "status": {"phase": "Released"},
    });
    let earlier = serde_json::from_value(earlier).expect("a volume");
    let volumes = &cluster.scene.reconciler.caches.volumes;
    volumes.deliver(earlier, true);
    assert_eq!(cluster.answer(json!({})).await, Answer::Allow);
    let cluster = Cluster::new("n", "same-name", Some("/persistentvolumes/"));
    let answer = cluster.answer(json!({})).await;
    let Answer::Warn(warnings) = &answer else {
        panic!("{answer:?}");
    };
    assert!(
        warnings[0].contains("could not verify in time"),
        "{warnings:?}"
    );
}

/// A claim that could not be bound to the volume stays Pending until a user deletes it.
#[tokio::test]
async fn a_claim_that_may_not_get_the_volume_does_not_keep_it_from_others() {
    for (unbindable, is_given) in [(json!([]), false), (json!(["x"]), true)] {
        let cluster = Cluster::new("n", "same-name", None);
        let kept = record("1", json!({"deletedAt": DELETED, "unbindable": unbindable}));
        let mut volume = cluster.scene.server.stored.lock().0.clone();
        volume["metadata"]["annotations"][TRASH] = kept.to_string().into();
        cluster.scene.server.stored.lock().0 = volume.clone();
        let caches = &cluster.scene.reconciler.caches;
        let volume = serde_json::from_value(volume).expect("a volume");
        caches.volumes.deliver(volume, true);
        let requesting = json!({
            "metadata": {"namespace": "ns", "name": "other", "uid": "x", "resourceVersion": "1",
                "annotations": {UNDELETE: "pvc/data"}},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Pending"},
        });
        let requesting = serde_json::from_value(requesting).expect("a claim");
        caches.claims.deliver(requesting, true);
        let answer = cluster.answer(json!({})).await;
        assert_eq!(
            matches!(answer, Answer::Patch { .. }),
            is_given,
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn class_and_claim_can_decide_for_a_new_volume() {
    for class in ["", "off", "yes"] {
        let answer = Cluster::new("n", class, None).answer(json!({})).await;
        assert_eq!(answer, Answer::Allow, "{class}");
    }
    let cluster = Cluster::new("n", "same-name", None);
    assert_eq!(cluster.answer(annotated("off")).await, Answer::Allow);
    let changes = annotated("same-name");
    let (_, warnings) = patched(cluster.answer(changes.clone()).await, changes);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let changes = annotated("false");
    let (claim, warnings) = patched(cluster.answer(changes.clone()).await, changes);
    assert_eq!(claim["spec"]["volumeName"], "pv");
    let unreadable = |warning: &String| warning.contains("cannot be read and has no effect");
    assert!(warnings.iter().any(unreadable), "{warnings:?}");
}

#[tokio::test]
async fn a_claim_that_does_not_fit_is_warned_of_the_data_in_the_trash() {
    let cluster = Cluster::new("n", "same-name", None);
    let large = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let Answer::Warn(warnings) = cluster.answer(large).await else {
        unreachable!("the claim is unchanged");
    };
    let command = "volume-warden undelete pvc data -n ns --volume pv --new-name NEW";
    assert!(warnings[0].contains(command), "{warnings:?}");
}

#[tokio::test]
async fn claims_that_are_not_handled_get_no_data() {
    let earlier = Cluster::new("recreated", "same-name", None);
    assert_eq!(earlier.answer(json!({})).await, Answer::Allow);
    let cluster = Cluster::new("n", "same-name", None);
    for changes in [
        json!({"metadata": {"name": "other"}}),
        json!({"metadata": {"name": "", "generateName": "data"}}),
        json!({"spec": {"volumeName": "other"}}),
        json!({"spec": {"storageClassName": "other"}}),
    ] {
        assert_eq!(
            cluster.answer(changes.clone()).await,
            Answer::Allow,
            "{changes}"
        );
    }
    let label = json!({"metadata": {"name": "ns", "uid": "n",
        "labels": {"volume-warden.dev/exclude": "true"}}});
    let label = serde_json::from_value(label).expect("a namespace");
    let namespaces = cluster.scene.reconciler.caches.namespaces.clone();
    namespaces.expect("all are watched").deliver(label, true);
    assert_eq!(cluster.answer(json!({})).await, Answer::Allow);
}

#[tokio::test(start_paused = true)]
async fn an_event_reports_a_class_whose_annotation_cannot_be_read() {
    for (class, expected) in [("yes", 1), ("same-name", 0), ("off", 0)] {
        let cluster = Cluster::new("n", class, None);
        cluster.scene.reconcile().await.expect("nothing fails");
        let notes = cluster.scene.notes().await;
        let text = "annotation volume-warden.dev/rebind of StorageClass fast cannot be read";
        let reported = notes.iter().filter(|note| note.contains(text)).count();
        assert_eq!(reported, expected, "{class}: {notes:?}");
    }
}

#[tokio::test]
async fn the_user_learns_that_a_failed_read_gives_the_claim_a_new_volume() {
    let cluster = Cluster::new("n", "same-name", Some("/namespaces/ns"));
    let Answer::Warn(warnings) = cluster.answer(json!({})).await else {
        unreachable!("the claim is unchanged");
    };
    let command = "volume-warden undelete pvc data -n ns --new-name NEW";
    assert!(warnings[0].contains(command), "{warnings:?}");
    let other = json!({"metadata": {"name": "other"}});
    assert_eq!(cluster.answer(other).await, Answer::Allow);
}

/// Users do not learn which claims an earlier namespace of this name had.
#[tokio::test]
async fn a_failed_read_reveals_no_claim_of_an_earlier_namespace() {
    let cluster = Cluster::new("recreated", "same-name", Some("/namespaces/ns"));
    let recreated = json!({"metadata": {"name": "ns", "uid": "recreated"}});
    let recreated = serde_json::from_value(recreated).expect("a namespace");
    let namespaces = cluster.scene.reconciler.caches.namespaces.clone();
    namespaces
        .expect("all are watched")
        .deliver(recreated, true);
    assert_eq!(cluster.answer(json!({})).await, Answer::Allow);
}
