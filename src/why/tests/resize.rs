//! Tests whether the Event about a failed resize is still its state.

use super::*;

const EVENTS: &str = "/api/v1/namespaces/shop/events";

/// A claim whose resize failed at 00:10, by an Event, and whose status is this.
fn resizing(status: Value) -> Cluster {
    let mut claim = json!({
        "metadata": {
            "name": "data", "namespace": "shop", "uid": "c",
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {"volumeName": "disk", "resources": {"requests": {"storage": "2Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    });
    json_patch::merge(&mut claim, &json!({"status": status}));
    let disk = json!({
        "metadata": {"name": "disk"}, "status": {"phase": "Bound"},
        "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": "c"}},
    });
    let failed = json!({
        "metadata": {"name": "data.1", "namespace": "shop"},
        "involvedObject": {"kind": "PersistentVolumeClaim", "name": "data", "uid": "c"},
        "reason": "VolumeResizeFailed", "message": "the pool is full",
        "firstTimestamp": "2026-01-01T00:05:00Z", "lastTimestamp": "2026-01-01T00:10:00Z",
    });
    Cluster::default()
        .claim(claim)
        .volume(disk)
        .with(EVENTS, failed)
}

#[tokio::test]
async fn a_resize_that_failed_before_it_succeeded() {
    let condition = |type_: &str, minute: &str| {
        json!({"conditions": [{
            "type": type_, "status": "True",
            "lastTransitionTime": format!("2026-01-01T00:{minute}:00Z"),
        }]})
    };
    let pending = json!({"allocatedResourceStatuses": {"storage": "NodeResizePending"}});
    let mut both = pending.clone();
    json_patch::merge(&mut both, &condition("NodeResizeError", "08"));
    for (status, expected) in [
        (json!({}), Code::ResizeFailed),
        (
            condition("FileSystemResizePending", "40"),
            Code::ResizePending,
        ),
        (
            condition("FileSystemResizePending", "10"),
            Code::ResizeFailed,
        ),
        (condition("Resizing", "40"), Code::ResizePending),
        (condition("Resizing", "08"), Code::ResizeFailed),
        (pending, Code::ResizePending),
        (both, Code::ResizeFailed),
    ] {
        let cluster = resizing(status.clone());
        let answer = cluster.explained(&Object::claim("shop", "data")).await;
        assert_eq!(codes(&answer), [expected], "{status}");
    }
}
