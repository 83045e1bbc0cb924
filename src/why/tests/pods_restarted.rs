//! Tests of pods whose node has restarted: their phase stays Running while the kubelet mounts their
//! volumes again.

use super::{
    pods_mounting::{EVENTS, attached_to_n1, event, pod, shop, web},
    stuck::{found, which},
    *,
};

fn container(state: &Value) -> Value {
    json!({"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

/// The pod `web`, which has been Running since long ago and is not ready, with a container in this
/// state.
fn running(sandbox: Option<&str>, state: &Value) -> Value {
    let ready = json!({
        "type": "Ready", "status": "False", "message": "containers with unready status: [main]",
        "lastTransitionTime": "2026-01-01T00:55:00Z",
    });
    let sandbox = sandbox.map(|status| json!({"type": HAS_SANDBOX, "status": status}));
    let conditions: Vec<_> = [Some(ready), sandbox].into_iter().flatten().collect();
    let status = json!({
        "phase": "Running", "conditions": conditions, "containerStatuses": [container(state)],
    });
    let mut pod = pod("web", "p2", "n2", &["data"], status);
    pod["metadata"]["creationTimestamp"] = json!("2025-12-01T00:00:00Z");
    pod
}

const HAS_SANDBOX: &str = "PodReadyToStartContainers";
const HAS: &str = "The pod has its volumes, but is not ready: ";
const NOT_READY: &str = "The pod is not ready: containers with unready status: [main].";

fn ended() -> Value {
    json!({"terminated": {"exitCode": 255}})
}

#[tokio::test]
async fn a_mount_that_fails_after_a_restart_is_a_cause() {
    let failed = |pod: Value| shop().pod(pod).with(EVENTS, event("FailedMount", "p2", 56));
    let crashing = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
    let creating = json!({"waiting": {"reason": "ContainerCreating"}});
    let (lacks, has) = (Code::NotMounted, Code::NoVolumeProblem);
    for (sandbox, state, expected) in [
        (Some("False"), ended(), lacks),
        (Some("False"), creating.clone(), lacks),
        (None, ended(), lacks),
        (None, creating, lacks),
        (None, crashing.clone(), has),
        (None, json!({"running": {}}), has),
        (Some("True"), crashing, has),
        (Some("True"), ended(), has),
    ] {
        let answer = failed(running(sandbox, &state)).explained(&web()).await;
        assert_eq!(codes(&answer), [expected], "{sandbox:?} {state}");
        let sentence = &answer.chain[0].sentence;
        assert_eq!(sentence.starts_with(HAS), expected == has, "{sentence}");
    }
    let elsewhere = attached_to_n1().pod(running(Some("False"), &ended()));
    let answer = elsewhere.explained(&web()).await;
    assert_eq!(codes(&answer), [Code::NotMounted, Code::Attached]);
}

/// Without an Event about a mount, it is not known whether the volumes are mounted.
#[tokio::test]
async fn volumes_are_reported_as_mounted_only_if_that_is_known() {
    let pod = || running(Some("False"), &ended());
    let answer = shop().pod(pod()).explained(&web()).await;
    assert_eq!(codes(&answer), [Code::NoVolumeProblem]);
    assert_eq!(answer.chain[0].sentence, NOT_READY);
    let unread = shop().pod(pod()).without("events").explained(&web()).await;
    assert_eq!(codes(&unread), []);
    assert_eq!(unread.unread.len(), 1, "{:?}", unread.unread);
}

/// The item about the pod, with its root cause and its time.
async fn stuck(event: Value) -> Option<(Code, Option<Timestamp>)> {
    let cluster = shop()
        .with("/api/v1/namespaces", json!({"metadata": {"name": "shop"}}))
        .pod(running(Some("False"), &ended()))
        .with(EVENTS, event);
    let items = found(cluster, &which(Some("shop"))).await.items;
    let item = items.into_iter().find(|item| item.name == "web")?;
    Some((item.root?.code, item.since))
}

/// A pod that has run for a month is not stuck since a month.
#[tokio::test]
async fn a_pod_whose_volumes_are_not_mounted_again_is_stuck() {
    let failed = |first: &str| {
        let mut event = event("FailedMount", "p2", 59);
        event["firstTimestamp"] = json!(first);
        event
    };
    let old = "2026-01-01T00:56:00Z";
    let expected = Some((Code::NotMounted, old.parse().ok()));
    assert_eq!(stuck(failed(old)).await, expected);
    assert_eq!(stuck(failed("2026-01-01T00:59:30Z")).await, None);
    assert_eq!(stuck(event("Pulled", "p2", 59)).await, None);
}
