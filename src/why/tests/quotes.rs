//! Tests that a cause quotes at most the beginning of a long message.

use super::{
    pods_mounting::{EVENTS, event, pod, shop, web},
    *,
};
use crate::objects::keys::STORAGE_CLASS;

fn long() -> String {
    "ä".repeat(100_000)
}

async fn assert_bounded(cluster: Cluster, object: &Object, expected: Code) {
    let answer = cluster.explained(object).await;
    let cause = answer.chain.iter().find(|cause| cause.code == expected);
    let Some(cause) = cause else {
        panic!("{object}: {:?}", codes(&answer))
    };
    let characters = cause.sentence.chars().count();
    assert!(cause.sentence.contains("ä…"), "{object}: {characters}");
    assert!(characters < 1300, "{object}: {characters}");
}

/// The pod `web`, with this status and on this node, which reports `long()` as the reason why it is
/// not ready.
fn with_pod(node: &str, status: Value) -> Cluster {
    let condition = json!({"type": "Ready", "status": "False", "message": long()});
    let n1 = json!({"metadata": {"name": "n1"}, "status": {"conditions": [condition]}});
    shop()
        .with("/api/v1/nodes", n1)
        .pod(pod("web", "p2", node, &[], status))
}

#[tokio::test]
async fn messages_about_a_pod_are_bounded() {
    let waiting = json!({
        "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": long()}},
    });
    let condition = |type_: &str| json!([{"type": type_, "status": "False", "message": long()}]);
    for (phase, status) in [
        ("Failed", json!({"message": long()})),
        ("Running", json!({"containerStatuses": [waiting]})),
        ("Running", json!({"conditions": condition("Ready")})),
    ] {
        let mut status = status;
        status["phase"] = json!(phase);
        assert_bounded(with_pod("n2", status), &web(), Code::NoVolumeProblem).await;
    }
    let creating = json!({"phase": "Pending"});
    assert_bounded(
        with_pod("n1", creating.clone()),
        &web(),
        Code::NoVolumeProblem,
    )
    .await;
    let mut failed = event("FailedMount", "p2", 50);
    failed["message"] = json!(long());
    let failed = with_pod("n2", creating).with(EVENTS, failed);
    assert_bounded(failed, &web(), Code::NotMounted).await;
    let conditions = json!({"phase": "Pending", "conditions": condition("PodScheduled")});
    let mut unscheduled = pod("web", "p2", "", &["data"], conditions);
    unscheduled["spec"]["nodeName"] = Value::Null;
    let unscheduled = shop().pod(unscheduled).without("persistentvolumes");
    assert_bounded(unscheduled, &web(), Code::PodUnscheduled).await;
}

#[tokio::test]
async fn messages_about_volumes_and_namespaces_are_bounded() {
    let spec = json!({"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"name": "data"}});
    let status = json!({"phase": "Released", "message": long()});
    let mut volume = json!({"metadata": {"name": "disk"}, "spec": spec, "status": status});
    let disk = Object::volume("disk");
    let cluster = Cluster::default().volume(volume.clone());
    assert_bounded(cluster, &disk, Code::StorageNotDeleted).await;
    volume["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:00Z");
    volume["metadata"]["finalizers"] = json!(["kubernetes.io/pv-controller"]);
    let cluster = Cluster::default().volume(volume);
    assert_bounded(cluster, &disk, Code::StorageNotDeleted).await;
    let failure = json!({
        "type": "NamespaceDeletionContentFailure", "status": "True", "message": long(),
    });
    let namespace = json!({
        "metadata": {"name": "shop", "deletionTimestamp": "2026-01-01T00:10:00Z"},
        "status": {"conditions": [failure]},
    });
    let cluster = Cluster::default().with("/api/v1/namespaces", namespace);
    let shop = Object::namespace("shop");
    assert_bounded(cluster, &shop, Code::NamespaceContent).await;
}

/// The API server checks only that the names of claims, ConfigMaps and Secrets in the spec of a pod
/// are not empty.
#[tokio::test]
async fn names_in_the_spec_of_a_pod_are_bounded() {
    let name = "\u{1b}ä".repeat(100_000);
    let claimed = pod(
        "web",
        "p2",
        "",
        &[name.as_str()],
        json!({"phase": "Pending"}),
    );
    let mut mounting = pod("web", "p2", "n2", &[], json!({"phase": "Pending"}));
    let mut failed = event("FailedMount", "p2", 50);
    failed["message"] = json!("MountVolume.SetUp failed for volume \"all\"");
    let mounted = |source: Value| {
        let mut volume = json!({"name": "all"});
        json_patch::merge(&mut volume, &source);
        mounting["spec"]["volumes"] = json!([volume]);
        shop().pod(mounting.clone()).with(EVENTS, failed.clone())
    };
    let [map, secret] = [
        json!({"configMap": {"name": name}}),
        json!({"secret": {"secretName": name}}),
    ]
    .map(mounted);
    for (cluster, expected) in [
        (shop().pod(claimed), Code::ClaimMissing),
        (map, Code::ConfigMissing),
        (secret, Code::ConfigMissing),
    ] {
        let answer = cluster.explained(&web()).await;
        let root = answer.root().expect("a root");
        assert_eq!(root.code, expected);
        let shown = format!("{} {}", root.sentence, purpose(&answer));
        assert!(shown.contains("\\u{1b}ä") && !shown.contains('\u{1b}'));
        assert!(shown.chars().count() < 1000, "{}", shown.len());
    }
}

/// The API server checks the annotation and the name of the volume as little as the owner
/// references.
#[tokio::test]
async fn texts_of_a_claim_are_bounded() {
    let class = json!({STORAGE_CLASS: long()});
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": long(), "uid": "gone"});
    let named = json!({"volumeName": long()});
    for (changes, expected) in [
        (
            json!({"metadata": {"annotations": class}}),
            Code::ClassMissing,
        ),
        (
            json!({"metadata": {"ownerReferences": [owner]}}),
            Code::DeadOwner,
        ),
        (json!({"spec": named}), Code::VolumeMissing),
        (
            json!({"spec": named, "status": {"phase": "Lost"}}),
            Code::VolumeMissing,
        ),
    ] {
        let mut claim = json!({"metadata": {"name": "data", "namespace": "shop", "uid": "c"},
            "spec": {}, "status": {"phase": "Pending"}});
        json_patch::merge(&mut claim, &changes);
        let cluster = Cluster::default().claim(claim);
        assert_bounded(cluster, &Object::claim("shop", "data"), expected).await;
    }
}
