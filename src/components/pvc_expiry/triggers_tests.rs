use super::*;
use crate::{
    clock::Clock,
    cluster::{Excluded, Feed, Feeds, LatestTime, Observation},
    objects::{expiry::EXPIRE_UNUSED, trash::TRASH, undelete_window::UNDELETE_WINDOW},
    telemetry::Metrics,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("readable")
}

/// The volume of the claim `shop/data`, with a record of the trash, in this phase.
fn volume(phase: &str) -> Value {
    let record = json!({"policy": "Delete", "windowSeconds": 3600,
        "claim": {"namespace": "shop", "name": "data", "uid": "c"}});
    json!({
        "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: record.to_string()}},
        "spec": {"storageClassName": "disks", "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "shop", "name": "data", "uid": "c"}},
        "status": {"phase": phase},
    })
}

fn class(age: &str, window: &str) -> Value {
    let annotations = json!({EXPIRE_UNUSED: age, UNDELETE_WINDOW: window});
    json!({"metadata": {"name": "disks", "uid": "s", "annotations": annotations}})
}

fn claim(condition: &str) -> Value {
    let unused = json!({"type": "Unused", "status": condition,
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({"metadata": {"namespace": "shop", "name": "data", "uid": "c"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound", "conditions": [unused]}})
}

fn pod(uid: &str) -> Value {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "data"}});
    json!({"metadata": {"namespace": "shop", "name": "web", "uid": uid},
        "spec": {"volumes": [volume]}})
}

/// A claim that expires by its class, and the queue that its changes fill.
fn scene() -> (Caches, Arc<WorkQueue<ObjectName>>) {
    let feeds = Feeds {
        claims: Feed::filled(vec![read(claim("True"))]),
        volumes: Feed::filled(vec![read(volume("Available"))]),
        classes: Feed::filled(vec![read(class("30d", "72h"))]),
        pods: Feed::filled(vec![]),
        ..Feeds::new(&Arc::new(Metrics::new()))
    };
    let excluded = Excluded::by_label(&feeds, None);
    let observation = Arc::new(Observation::default());
    let time = LatestTime::new(Clock::system());
    let caches = Caches::new(&feeds, observation, time, excluded);
    let queue = Arc::new(WorkQueue::default());
    queue.open();
    listen(&caches, &queue);
    (caches, queue)
}

/// Whether exactly the claim is in the queue.
async fn is_enqueued(queue: &WorkQueue<ObjectName>) -> bool {
    let Ok(name) = timeout(Duration::from_millis(1), queue.take()).await else {
        return false;
    };
    assert_eq!(name, ObjectName::new("shop", "data"));
    queue.done(&name);
    true
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_looked_at_when_its_volume_changes_in_what_the_rule_reads() {
    let (caches, queue) = scene();
    caches.volumes.deliver(read(volume("Available")), true);
    assert!(!is_enqueued(&queue).await, "nothing changed");
    caches.volumes.deliver(read(volume("Bound")), true);
    assert!(is_enqueued(&queue).await, "the phase");
    let mut deleted = volume("Bound");
    deleted["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    caches.volumes.deliver(read(deleted.clone()), true);
    assert!(is_enqueued(&queue).await, "the policy");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    caches.volumes.deliver(read(deleted), true);
    assert!(is_enqueued(&queue).await, "another obstacle");
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_looked_at_when_its_class_its_condition_or_its_pods_change() {
    let (caches, queue) = scene();
    caches.classes.deliver(read(class("60d", "72h")), true);
    assert!(is_enqueued(&queue).await, "the class");
    caches.classes.deliver(read(class("60d", "off")), true);
    assert!(is_enqueued(&queue).await, "the undelete window");
    caches.claims.deliver(read(claim("True")), true);
    assert!(!is_enqueued(&queue).await, "nothing changed");
    caches.claims.deliver(read(claim("False")), true);
    assert!(is_enqueued(&queue).await, "the condition");
    caches.pods.deliver(read(pod("a")), true);
    assert!(is_enqueued(&queue).await, "a pod that names it");
    caches.pods.deliver(read(pod("a")), true);
    assert!(!is_enqueued(&queue).await, "the same pod");
    caches.pods.deliver(read(pod("a")), false);
    assert!(is_enqueued(&queue).await, "the pod is gone");
}

/// The condition of the claim stays True although pods use it: nothing writes the condition.
#[test]
fn the_last_pod_counts_if_nothing_writes_the_condition() {
    let (caches, _queue) = scene();
    let name = ObjectName::new("shop", "data");
    caches.observation.begin(Timestamp::UNIX_EPOCH);
    let seen = || caches.observed(&name) > Some(Timestamp::UNIX_EPOCH);
    caches.pods.deliver(read(pod("a")), true);
    assert!(!seen(), "the rule sees a pod that exists");
    caches.pods.deliver(read(pod("b")), true);
    assert!(seen(), "another pod of the same name");
    caches.claims.deliver(read(claim("False")), true);
    assert!(!seen(), "the condition is written");
    caches.pods.deliver(read(pod("b")), false);
    assert!(!seen(), "the condition will be written");
    caches.claims.deliver(read(claim("True")), true);
    let mut ended = pod("c");
    ended["status"]["phase"] = json!("Succeeded");
    caches.pods.deliver(read(ended.clone()), true);
    caches.pods.deliver(read(ended.clone()), false);
    assert!(!seen(), "it had ended before");
    caches.pods.deliver(read(pod("c")), true);
    caches.pods.deliver(read(ended), true);
    assert!(seen(), "the pod ends");
    caches.claims.deliver(read(claim("False")), true);
    caches.claims.deliver(read(claim("True")), true);
    caches.pods.deliver(read(pod("d")), true);
    assert!(!seen(), "the ended pod is replaced");
    caches.pods.deliver(read(pod("d")), false);
    assert!(seen(), "the pod is deleted");
    caches.claims.deliver(read(claim("True")), false);
    assert!(!seen(), "the claim is gone");
}
