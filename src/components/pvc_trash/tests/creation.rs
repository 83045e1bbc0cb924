//! Tests of the webhook for new volumes.

use super::scene::{Scene, Server};
use crate::{
    admission::{Answer, Request},
    components::pvc_trash::webhooks::{Reviews, hooks},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// The answer about the new volume `pv` of the claim `data` of a class with an undelete window,
/// where the API server has the claim with these changes.
async fn answered(changes: Value) -> Answer {
    let mut claim =
        json!({"metadata": {"namespace": "ns", "name": "data", "uid": "1"}, "spec": {}});
    json_patch::merge(&mut claim, &changes);
    let server = Server {
        claims: vec![claim],
        namespace: Some("n"),
        ..Server::default()
    };
    let old = json!({"metadata": {"name": "old", "uid": "o"}, "spec": {}, "status": {}});
    let scene = Scene::new(server, Timestamp::UNIX_EPOCH, old, &[]);
    let class = json!({"metadata": {"name": "fast", "uid": "c",
        "annotations": {"volume-warden.dev/undelete-window": "1h"}}});
    let class = serde_json::from_value(class).expect("a class");
    scene.reconciler.caches.classes.list(vec![class]);
    let hooks = hooks(&Arc::new(Reviews {
        caches: scene.reconciler.caches.clone(),
        live: scene.reconciler.live.clone(),
    }));
    let volume = json!({
        "metadata": {"name": "pv"},
        "spec": {"storageClassName": "fast", "persistentVolumeReclaimPolicy": "Delete",
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "ns", "name": "data", "uid": "1"}},
    });
    let request = json!({
        "uid": "review", "operation": "CREATE", "name": "pv", "object": volume,
        "resource": {"group": "", "version": "v1", "resource": "persistentvolumes"},
    });
    let request: Request = serde_json::from_value(request).expect("a request");
    let answer = hooks[0].review.answer(Arc::new(request)).await;
    answer.expect("an answer")
}

/// A provisioner may create a volume for a claim that has got another one meanwhile. With the
/// policy Retain, kube-controller-manager would keep it, without a claim that could ever be
/// deleted.
#[tokio::test]
async fn a_volume_whose_claim_has_another_one_is_not_kept() {
    for (named, is_kept) in [(None, true), (Some("pv"), true), (Some("other"), false)] {
        let answer = answered(json!({"spec": {"volumeName": named}})).await;
        let kept = matches!(answer, Answer::Patch { .. });
        assert_eq!(kept, is_kept, "{named:?}: {answer:?}");
    }
}
