//! Tests that `why` concludes health only for objects whose health it has examined.

use super::*;
use crate::why::Conclusion;

/// The conclusion of an answer as text: `Healthy`, `NothingFound`, or the codes of the chain.
fn concluded(answer: &Answer) -> String {
    match &answer.conclusion {
        Conclusion::Healthy { .. } => "Healthy".to_owned(),
        Conclusion::NothingFound { command, .. } => {
            assert!(command.starts_with("kubectl describe "), "{command}");
            "NothingFound".to_owned()
        }
        Conclusion::Explained => format!("{:?}", codes(answer)),
    }
}

pub(super) fn merged(mut object: Value, changes: &Value) -> Value {
    json_patch::merge(&mut object, changes);
    object
}

pub(super) fn claim(changes: &Value) -> Value {
    let claim = json!({
        "metadata": {
            "name": "data-web-0", "namespace": "shop", "uid": "c",
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {"volumeName": "disk", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    });
    merged(claim, changes)
}

pub(super) fn volume(changes: &Value) -> Value {
    let claim = json!({"namespace": "shop", "name": "data-web-0", "uid": "c"});
    let volume = json!({
        "metadata": {"name": "disk"}, "status": {"phase": "Bound"},
        "spec": {"claimRef": claim, "capacity": {"storage": "1Gi"}},
    });
    merged(volume, changes)
}

/// The StatefulSet whose policy keeps the claim.
pub(super) fn set(changes: &Value) -> Value {
    let set = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "s", "generation": 2},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "serviceName": "web",
            "template": {}, "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
        "status": {"replicas": 1, "observedGeneration": 2, "currentRevision": "1", "updateRevision": "1"},
    });
    merged(set, changes)
}

pub(super) const SETS: &str = "/apis/apps/v1/namespaces/shop/statefulsets";

#[tokio::test]
async fn a_bound_claim_is_healthy_only_with_its_volume_and_size() {
    let (none, pvc) = (json!({}), Object::claim("shop", "data-web-0"));
    let condition =
        |type_: &str| json!({"status": {"conditions": [{"type": type_, "status": "True"}]}});
    let attributes = |wanted: &str, current: &str| {
        json!({
            "spec": {"volumeAttributesClassName": wanted},
            "status": {"currentVolumeAttributesClassName": current},
        })
    };
    for (claimed, volumed, expected) in [
        (none.clone(), Some(none.clone()), "Healthy"),
        (condition("Unused"), Some(none.clone()), "Healthy"),
        (condition("Resizing"), Some(none.clone()), "[ResizePending]"),
        (
            condition("FileSystemResizePending"),
            Some(none.clone()),
            "[ResizePending]",
        ),
        (
            json!({"status": {"conditions": [{"type": "NodeResizeError", "status": "True", "message": "no"}]}}),
            Some(none.clone()),
            "[ResizeFailed]",
        ),
        (
            condition("SomethingNew"),
            Some(none.clone()),
            "NothingFound",
        ),
        (
            json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
            Some(none.clone()),
            "[ResizePending]",
        ),
        (
            json!({"status": {"allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"}}}),
            Some(none.clone()),
            "[ResizeFailed]",
        ),
        (
            json!({"status": {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}}),
            Some(none.clone()),
            "[ResizePending]",
        ),
        (
            json!({"status": {"allocatedResourceStatuses": {"storage": "NodeResizePending"}}}),
            Some(none.clone()),
            "[ResizePending]",
        ),
        (
            json!({"status": {"modifyVolumeStatus": {"status": "Infeasible"}}}),
            Some(none.clone()),
            "NothingFound",
        ),
        (attributes("gold", "gold"), Some(none.clone()), "Healthy"),
        (
            attributes("gold", "silver"),
            Some(none.clone()),
            "NothingFound",
        ),
        (
            none.clone(),
            Some(json!({"status": {"phase": "Available"}})),
            "NothingFound",
        ),
        (
            none.clone(),
            Some(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:10:00Z"}})),
            "[VolumeDeleting]",
        ),
        (
            none.clone(),
            Some(json!({"spec": {"claimRef": {"uid": "x"}}})),
            "[ClaimReplaced]",
        ),
        (none.clone(), None, "[VolumeMissing]"),
    ] {
        for of_a_set in [false, true] {
            let mut cluster = Cluster::default().claim(claim(&claimed));
            if let Some(volumed) = &volumed {
                cluster = cluster.volume(volume(volumed));
            }
            if of_a_set {
                cluster = cluster.with(SETS, set(&none));
            }
            let answer = cluster.explained(&pvc).await;
            assert_eq!(concluded(&answer), expected, "{claimed} {volumed:?}");
            let informed = of_a_set && !expected.starts_with('[');
            assert_eq!(
                codes(&answer) == [Code::KeptByPolicy],
                informed,
                "{claimed}"
            );
        }
    }
    let resized = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let unread = Cluster::default()
        .claim(claim(&resized))
        .volume(volume(&none));
    let unread = unread.without("events").explained(&pvc).await;
    assert_eq!(concluded(&unread), "NothingFound");
    let unread = Cluster::default().claim(claim(&none)).volume(volume(&none));
    let unread = unread.without("persistentvolumes").explained(&pvc).await;
    assert_eq!(concluded(&unread), "NothingFound");
    let unread = Cluster::default().claim(claim(&none)).volume(volume(&none));
    let unread = unread.without("statefulsets").explained(&pvc).await;
    assert_eq!(
        concluded(&unread),
        "NothingFound",
        "nothing is healthy that is not read"
    );
}

#[tokio::test]
async fn a_volume_is_healthy_only_with_its_claim() {
    let (none, pv) = (json!({}), Object::volume("disk"));
    let reserved = json!({"spec": {"claimRef": {"uid": null}}, "status": {"phase": "Available"}});
    let small = merged(
        reserved.clone(),
        &json!({"spec": {"capacity": {"storage": "1Mi"}}}),
    );
    let pending = json!({"spec": {"volumeName": null}, "status": {"phase": "Pending"}});
    for (volumed, claimed, expected) in [
        (none.clone(), Some(none.clone()), "Healthy"),
        (
            none.clone(),
            Some(json!({"metadata": {"uid": "x"}})),
            "NothingFound",
        ),
        (
            none.clone(),
            Some(json!({"spec": {"volumeName": "x"}})),
            "NothingFound",
        ),
        (none.clone(), Some(pending.clone()), "NothingFound"),
        (none.clone(), None, "NothingFound"),
        (
            json!({"spec": {"claimRef": null}, "status": {"phase": "Available"}}),
            None,
            "Healthy",
        ),
        (
            json!({"status": {"phase": "Pending"}}),
            None,
            "NothingFound",
        ),
        (reserved.clone(), None, "NothingFound"),
        (reserved.clone(), Some(pending.clone()), "NothingFound"),
        (reserved, Some(none.clone()), "NothingFound"),
        (small, Some(pending), "[NoMatchingVolume]"),
    ] {
        let mut cluster = Cluster::default().volume(volume(&volumed));
        if let Some(claimed) = &claimed {
            cluster = cluster.claim(claim(claimed));
        }
        let answer = cluster.explained(&pv).await;
        assert_eq!(concluded(&answer), expected, "{volumed} {claimed:?}");
    }
}

pub(super) fn pod(phase: &str, ready: &str, containers: &Value) -> Value {
    json!({
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "p", "labels": {"app": "web"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": true,
            }],
        },
        "spec": {"containers": [], "nodeName": "n1"},
        "status": {
            "phase": phase, "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": containers,
        },
    })
}

fn container(ready: bool, state: Value) -> Value {
    json!([{"name": "main", "image": "i", "imageID": "i", "ready": ready, "restartCount": 0, "state": state}])
}

/// A pod that the kubelet rejected for this reason.
fn rejected(reason: &str) -> Value {
    let mut rejected = pod("Failed", "False", &json!([]));
    rejected["status"]["reason"] = json!(reason);
    rejected
}

#[tokio::test]
async fn a_pod_is_healthy_only_when_it_is_ready_or_has_succeeded() {
    let object = Object::pod("shop", "web-0");
    let crashing = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}});
    for (pod, expected) in [
        (
            pod("Running", "True", &container(true, json!({}))),
            "Healthy",
        ),
        (pod("Succeeded", "False", &json!([])), "Healthy"),
        (
            pod("Running", "False", &container(false, crashing.clone())),
            "[NoVolumeProblem]",
        ),
        (
            pod("Running", "True", &container(false, crashing)),
            "[NoVolumeProblem]",
        ),
        (pod("Running", "Unknown", &json!([])), "[NoVolumeProblem]"),
        (pod("Failed", "False", &json!([])), "[NoVolumeProblem]"),
        (rejected("Evicted"), "[NoVolumeProblem]"),
        (
            rejected("VolumeAttachmentLimitExceeded"),
            "[TooManyVolumes]",
        ),
    ] {
        let answer = Cluster::default().pod(pod.clone()).explained(&object).await;
        assert_eq!(concluded(&answer), expected, "{pod}");
    }
}

#[tokio::test]
async fn a_set_is_healthy_only_with_its_pods_of_its_latest_revision() {
    let object = Object::stateful_set("shop", "web");
    for (changes, expected) in [
        (json!({}), "Healthy"),
        (json!({"status": {"updateRevision": "2"}}), "NothingFound"),
        (json!({"metadata": {"generation": 3}}), "NothingFound"),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:10:00Z"}}),
            "NothingFound",
        ),
    ] {
        let ready = pod("Running", "True", &json!([]));
        let cluster = Cluster::default().with(SETS, set(&changes)).pod(ready);
        let answer = cluster.explained(&object).await;
        assert_eq!(concluded(&answer), expected, "{changes}");
    }
}
