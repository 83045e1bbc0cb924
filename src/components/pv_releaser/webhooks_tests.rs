//! Tests of the answers of the webhook of pv-releaser to reviews as the API server sends them.

use super::*;
use crate::{
    admission::{Answer, Request},
    cluster::{Feed, Feeds, LiveGet, test_server::answering},
    objects::managed_by::{LEGACY_LABEL, PROVISIONER_LABEL, RELEASER_LABEL},
    telemetry::Metrics,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn us() -> String {
    Options::default().id.to_string()
}

/// Caches with one claim, which has these labels.
fn caches(labels: Value) -> Caches {
    let claim =
        json!({"metadata": {"namespace": "ns", "name": "data", "uid": "1", "labels": labels}});
    let claim = serde_json::from_value(claim).expect("a claim");
    let feeds = Feeds {
        claims: Feed::filled(vec![claim]),
        ..Feeds::new(&Arc::new(Metrics::new()))
    };
    Caches::new(&feeds, None, Options::default())
}

fn created(changes: Value) -> Request {
    let mut volume = json!({
        "metadata": {"name": "pv", "labels": {"app": "x"}},
        "spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "1"}, "persistentVolumeReclaimPolicy": "Retain"},
    });
    json_patch::merge(&mut volume, &changes);
    let request = json!({
        "uid": "review", "operation": "CREATE", "name": "pv", "object": volume,
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumes"},
    });
    serde_json::from_value(request).expect("a request")
}

/// The answer, where the API server knows the namespace with the uid `n` and this claim.
async fn answered(caches: &Caches, request: &Request, claim_uid: &'static str) -> Answer {
    let client = answering(move |head, _| {
        let uid = if head.uri.path().ends_with("/namespaces/ns") {
            "n"
        } else {
            claim_uid
        };
        let object = json!({"metadata": {"namespace": "ns", "name": "data", "uid": uid}});
        (200, object)
    });
    let metrics = Arc::new(Metrics::new());
    let hook = volume_hook(VolumeWebhook {
        caches: caches.clone(),
        identity: Identity {
            namespaces: LiveGet::new(metrics.clone(), &client),
            claims: LiveGet::new(metrics, &client),
        },
    });
    assert!(hook.rules.iter().all(|rule| rule.covers(request)));
    let answer = hook.review.answer(Arc::new(request.clone())).await;
    answer.expect("an answer")
}

async fn reviewed(caches: &Caches, request: &Request) -> Answer {
    answered(caches, request, "other").await
}

#[tokio::test]
async fn a_volume_for_a_managed_claim_is_labelled_at_creation() {
    let caches = caches(json!({PROVISIONER_LABEL: us()}));
    let Answer::Patch {
        operations, what, ..
    } = reviewed(&caches, &created(json!({}))).await
    else {
        panic!("it is labelled");
    };
    let path = "/metadata/labels/reclaimable-pv-releaser.kubernetes.io~1managed-by";
    let expected = json!([{"op": "add", "path": path, "value": us()}]);
    assert_eq!(json!(operations), expected);
    assert_eq!(what, format!("add the label {RELEASER_LABEL}={}", us()));
}

#[tokio::test]
async fn the_namespace_of_a_claim_that_exists_is_recorded_at_creation() {
    let caches = caches(json!({PROVISIONER_LABEL: us()}));
    let answer = answered(&caches, &created(json!({})), "1").await;
    let Answer::Patch { operations, .. } = answer else {
        panic!("it is labelled");
    };
    let annotations = json!({"op": "add", "path": "/metadata/annotations",
        "value": {"volume-warden.dev/claim-namespace": "ns/n/1"}});
    assert_eq!(json!(operations)[1], annotations);
}

#[tokio::test]
async fn all_other_volumes_are_allowed_unchanged() {
    let own = json!({PROVISIONER_LABEL: us()});
    for (row, caches, volume) in [
        (
            "not our claim",
            caches(json!({PROVISIONER_LABEL: "you"})),
            json!({}),
        ),
        (
            "another claim of that name",
            caches(own.clone()),
            json!({"spec": {"claimRef": {"uid": "2"}}}),
        ),
        (
            "another claim",
            caches(own.clone()),
            json!({"spec": {"claimRef": {"name": "other"}}}),
        ),
        (
            "no claim",
            caches(own.clone()),
            json!({"spec": {"claimRef": null}}),
        ),
        (
            "deleted with its claim",
            caches(own.clone()),
            json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        ),
        (
            "labelled already",
            caches(own.clone()),
            json!({"metadata": {"labels": {RELEASER_LABEL: us()}}}),
        ),
        (
            "labelled for another installation",
            caches(own),
            json!({"metadata": {"labels": {LEGACY_LABEL: "you"}}}),
        ),
    ] {
        assert_eq!(
            reviewed(&caches, &created(volume)).await,
            Answer::Allow,
            "{row}"
        );
    }
}

#[tokio::test]
async fn an_empty_watch_refuses_nothing() {
    let feeds = Feeds::new(&Arc::new(Metrics::new()));
    let caches = Caches::new(&feeds, None, Options::default());
    assert_eq!(reviewed(&caches, &created(json!({}))).await, Answer::Allow);
}
