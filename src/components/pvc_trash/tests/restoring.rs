//! Tests of which claims the webhook lets restore data.

use super::{
    record,
    scene::{Scene, Server},
};
use crate::{
    admission::{Answer, Request},
    components::pvc_trash::webhooks::{Reviews, hooks},
    objects::trash::{MAX_UNBINDABLE, TRASH, UNDELETE},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const DELETED: &str = "2026-01-01T00:00:00Z";

/// The answer about a claim that requests this text, while the claim `data` of the namespace with
/// the uid `n` is in the trash.
async fn answered(requested: &str, namespace: &'static str, changes: Value) -> Answer {
    let time: Timestamp = DELETED.parse().expect("a time");
    let server = Server {
        claims: Vec::new(),
        namespace: Some(namespace),
        attached: None,
        unreadable: None,
        time,
        patches: Mutex::default(),
        stored: Mutex::default(),
        writes: Mutex::default(),
    };
    let mut kept = record("1", json!({"deletedAt": DELETED}));
    json_patch::merge(&mut kept, &changes);
    let volume = json!({
        "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: kept.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "ns", "name": "data", "uid": "1"}},
        "status": {"phase": "Released"},
    });
    let scene = Scene::new(server, time, volume, &[]);
    let hooks = hooks(&Arc::new(Reviews {
        caches: scene.reconciler.caches.clone(),
        live: scene.reconciler.live.clone(),
    }));
    let claim = json!({"metadata": {"name": "again", "annotations": {UNDELETE: requested}}});
    let request = json!({
        "uid": "review", "operation": "CREATE", "namespace": "ns", "name": "again", "object": claim,
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
    });
    let request: Request = serde_json::from_value(request).expect("a request");
    let answer = hooks[1].review.answer(Arc::new(request)).await;
    answer.expect("an answer")
}

async fn refusal(requested: &str, namespace: &'static str, changes: Value) -> String {
    match answered(requested, namespace, changes).await {
        Answer::Deny { message, .. } => message,
        other => unreachable!("{other:?}"),
    }
}

#[tokio::test]
async fn the_data_of_an_earlier_namespace_does_not_show() {
    for requested in ["data", "pv"] {
        let answer = answered(requested, "n", json!({})).await;
        assert!(matches!(answer, Answer::Patch { .. }), "{answer:?}");
    }
    let earlier = refusal("data", "recreated", json!({})).await;
    let other = refusal("other", "recreated", json!({})).await;
    assert_eq!(earlier.replace("data", "other"), other);
}

/// A deletion whose time is recorded only a moment later counts as the latest one.
#[tokio::test]
async fn a_deletion_whose_time_is_not_recorded_is_the_last_one() {
    let deleted = |name: &str, uid: &str, at: Value| {
        let kept = record(uid, json!({"deletedAt": at}));
        json!({
            "metadata": {"name": name, "uid": name, "annotations": {TRASH: kept.to_string()}},
            "spec": {"persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "ns", "name": "data", "uid": uid}},
            "status": {"phase": "Released"},
        })
    };
    let server = Server {
        claims: Vec::new(),
        namespace: Some("n"),
        attached: None,
        unreadable: None,
        time: DELETED.parse().expect("a time"),
        patches: Mutex::default(),
        stored: Mutex::default(),
        writes: Mutex::default(),
    };
    let (time, first) = (server.time, deleted("pv", "1", json!(DELETED)));
    let scene = Scene::new(server, time, first, &[]);
    let caches = &scene.reconciler.caches;
    let second = serde_json::from_value(deleted("a", "2", Value::Null)).expect("a volume");
    caches.volumes.hear(second, true);
    let (name, _) = caches.in_trash("ns", "data").expect("in the trash");
    assert_eq!(&*name.name, "a");
}

/// The answer and the log do not repeat a tenant's text that is no valid name.
#[tokio::test]
async fn a_text_that_is_no_name_is_refused_without_it() {
    let message = refusal(&"x".repeat(254), "n", json!({})).await;
    assert!(message.contains("longer than 253 bytes"), "{message}");
    assert!(!message.contains("xx"), "{message}");
    let longest = refusal(&"x".repeat(253), "n", json!({})).await;
    assert!(longest.contains("no deleted claim \"xx"), "{longest}");
}

/// pvc-trash would never reserve the volume for this claim, so the webhook refuses the claim.
#[tokio::test]
async fn no_claim_follows_too_many_that_could_not_be_bound() {
    let unbindable = |number: usize| {
        let uids: Vec<_> = (0..number).map(|uid| uid.to_string()).collect();
        json!({"unbindable": uids})
    };
    let answer = answered("data", "n", unbindable(MAX_UNBINDABLE - 1)).await;
    assert!(matches!(answer, Answer::Patch { .. }), "{answer:?}");
    let message = refusal("data", "n", unbindable(MAX_UNBINDABLE)).await;
    assert!(message.contains("only an administrator"), "{message}");
}
