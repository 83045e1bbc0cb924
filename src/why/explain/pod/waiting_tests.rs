use super::*;
use serde_json::{Value, json};

fn pod(status: &Value) -> Pod {
    let pod = json!({"metadata": {"name": "web"}, "status": status});
    serde_json::from_value(pod).expect("a pod")
}

/// An init container that fails was created, so the volumes are mounted, although the other
/// containers still wait for it.
#[test]
fn a_pod_whose_first_container_was_made_has_its_volumes() {
    let container = |state: Value| json!({"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    let waits = |reason: &str| container(json!({"waiting": {"reason": reason}}));
    let mounting = |init: Value, main: Value| {
        may_lack_volumes(&pod(
            &json!({"initContainerStatuses": init, "containerStatuses": main}),
        ))
    };
    let initializing = || json!([waits("PodInitializing")]);
    assert!(may_lack_volumes(&pod(&json!({}))));
    assert!(mounting(json!([]), json!([waits("ContainerCreating")])));
    assert!(mounting(initializing(), initializing()));
    assert!(!mounting(
        json!([waits("CrashLoopBackOff")]),
        initializing()
    ));
    assert!(!mounting(json!([]), json!([waits("ImagePullBackOff")])));
    assert!(!mounting(
        json!([container(json!({"running": {}}))]),
        initializing()
    ));
    // A container that has ended may have ended with its node.
    let ended = || container(json!({"terminated": {"exitCode": 0}}));
    assert!(mounting(json!([ended()]), initializing()));
    let running = container(json!({"running": {}}));
    assert!(!mounting(json!([ended()]), json!([ended(), running])));
}

#[test]
fn a_pod_that_failed_says_why() {
    let said = |status: &Value| ended(&Object::pod("shop", "web"), &pod(status)).sentence;
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    assert_eq!(
        said(&evicted),
        "The pod is Failed: Evicted: The node was low on resource: memory."
    );
    assert_eq!(
        said(&json!({"phase": "Unknown"})),
        "The pod is Unknown: its status gives no reason."
    );
}
