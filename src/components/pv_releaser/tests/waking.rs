//! Tests of the changes that enqueue a volume.

use super::{
    parking::{parked, reserved},
    scene::{Scene, claim, claimed, labelled},
    *,
};

/// Test cases PR-05 and PR-20 of the specification.
#[tokio::test(start_paused = true)]
async fn a_volume_is_labelled_even_after_its_claim_is_deleted() {
    let scene = Scene::new(cluster());
    let claims = &scene.releaser.caches.claims;
    scene.deliver(claims, claim("1", json!(null)));
    scene.watch_volume("5", json!({"status": {"phase": "Bound"}}));
    assert!(scene.reconcile().await && scene.woken().await);
    assert_eq!(
        scene.server.sent("PATCH persistentvolumes"),
        [] as [Value; 0]
    );
    scene.deliver(claims, claim("1", claimed()));
    assert!(scene.woken().await, "labelled");
    scene.deliver(claims, claim("1", claimed()));
    assert!(!scene.woken().await, "nothing that counts has changed");
    scene.lose(claims, claim("1", claimed()));
    assert!(scene.woken().await, "gone");
    scene.watch_volume("6", json!({}));
    assert!(scene.reconcile().await);
    assert!(scene.reconcile().await, "before the watch shows it");
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "pv-uid"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "6"},
        {"op": "add", "path": "/metadata/labels", "value": {RELEASER_LABEL: cluster().id.as_str()}},
    ]);
    assert_eq!(scene.server.sent("PATCH persistentvolumes"), [expected]);
    scene.watch_volume("7", labelled());
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.sent("PATCH persistentvolumes").len(), 2);
    assert_eq!(scene.server.reasons(), ["Associated", "Released"]);
}

/// A volume is enqueued even if the watch delivers only the recreated claim of the same name, and
/// not the deletion.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_replaced_is_remembered_too() {
    let scene = Scene::new(cluster());
    let claims = &scene.releaser.caches.claims;
    scene.deliver(claims, claim("1", claimed()));
    scene.deliver(claims, claim("2", json!(null)));
    scene.watch_volume("5", json!({}));
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.reasons(), ["Associated"]);
}

/// PR-31: a volume is enqueued when its StorageClass changes, also when the annotation of the class
/// is removed.
#[tokio::test(start_paused = true)]
async fn a_class_enqueues_its_released_volumes() {
    let scene = Scene::new(Options {
        associate_by_storage_class: true,
        ..cluster()
    });
    let classes = &scene.releaser.caches.classes;
    let class = |id: &str| json!({"metadata": {"name": "fast", "annotations": {"reclaimable-pv-releaser.kubernetes.io/controller-id": id}}});
    scene.watch_volume("5", json!({}));
    assert!(scene.reconcile().await && scene.woken().await);
    scene.deliver(classes, class("other"));
    assert!(scene.reconcile().await && scene.woken().await);
    scene.deliver(classes, class(cluster().id.as_str()));
    assert!(scene.woken().await);
    assert!(scene.reconcile().await);
    assert_eq!(scene.server.sent("PATCH persistentvolumes").len(), 1);
    scene.watch_volume("6", json!({"metadata": {"uid": "another"}}));
    scene.lose(classes, class(cluster().id.as_str()));
    assert!(scene.reconcile().await && scene.woken().await);
    assert_eq!(scene.server.sent("PATCH persistentvolumes").len(), 1);
    assert_eq!(scene.server.reasons(), ["Orphaned", "Released", "Orphaned"]);
}

/// With the release scope `namespace`, the namespace of its claim must be recorded before the claim
/// is deleted.
#[tokio::test(start_paused = true)]
async fn a_class_enqueues_its_bound_volumes() {
    let scene = Scene::new(Options {
        associate_by_storage_class: true,
        ..cluster()
    });
    scene.watch_volume("5", json!({"status": {"phase": "Bound"}}));
    assert!(scene.woken().await);
    let key = "reclaimable-pv-releaser.kubernetes.io/controller-id";
    let annotations = json!({key: cluster().id.as_str()});
    let class = json!({"metadata": {"name": "fast", "annotations": annotations}});
    scene.deliver(&scene.releaser.caches.classes, class);
    assert!(scene.woken().await);
}

/// When a namespace is being deleted, and when it is deleted, its reserved volumes are enqueued:
/// claims of a recreated namespace must not get them.
#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_enqueues_the_volumes_that_are_reserved_in_it() {
    let scene = Scene::new(cluster());
    let namespaces = &scene.releaser.caches.namespaces;
    let namespace = |uid: &str| json!({"metadata": {"name": "ns", "uid": uid}});
    scene.deliver(namespaces, namespace("1"));
    scene.watch_volume("5", reserved("1", None));
    assert!(scene.woken().await);
    scene.deliver(namespaces, namespace("1"));
    assert!(!scene.woken().await, "it still exists");
    scene.deliver(namespaces, namespace("2"));
    assert!(scene.woken().await, "recreated");
    let mut terminating = namespace("2");
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    scene.deliver(namespaces, terminating.clone());
    assert!(scene.woken().await, "its deletion begins");
    scene.deliver(namespaces, terminating.clone());
    assert!(!scene.woken().await, "nothing has changed");
    scene.lose(namespaces, terminating);
    assert!(scene.woken().await, "deleted");
    scene.watch_volume("6", parked("1"));
    assert!(scene.woken().await);
    scene.deliver(namespaces, namespace("3"));
    scene.lose(namespaces, namespace("3"));
    assert!(
        !scene.woken().await,
        "no claim can be bound to a parked one"
    );
}
