use super::*;
use crate::{
    cluster::test_server::{answering, failure},
    why::explain::pod::claims::mounted,
};
use serde_json::{Value, json};

const TEMPLATE: &str = "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 2Gi}}}}";

/// The sentence about the missing claim of the volume `data` of a pod `web-0`, which also has the
/// volume `other`.
fn sentence_of(metadata: &Value) -> String {
    let mut pod = json!({
        "metadata": {"name": "web-0", "namespace": "shop"},
        "spec": {"containers": [], "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
            {"name": "other", "persistentVolumeClaim": {"claimName": "other"}},
        ]},
        "status": {"phase": "Pending"},
    });
    json_patch::merge(&mut pod["metadata"], metadata);
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let client = answering(|_, _| failure(404, "NotFound"));
    let reads = LiveReads::new(client, Default::default());
    let object = Object::pod("shop", "web-0");
    cause(&reads, &object, &pod, &mounted(&pod)[0]).sentence
}

fn annotated(pairs: &[(&str, &str)]) -> Value {
    let prefix = crate::objects::claim_requests::PREFIX;
    let pairs = pairs.iter();
    let pairs = pairs.map(|(key, value)| (format!("{prefix}{key}"), json!(value)));
    json!({"annotations": pairs.collect::<serde_json::Map<_, _>>()})
}

#[tokio::test]
async fn who_would_make_the_claim_is_named() {
    let set = |api_version: &str| {
        json!({"ownerReferences": [
            {"apiVersion": api_version, "kind": "StatefulSet", "name": "web", "uid": "u", "controller": true},
        ]})
    };
    let invalid = ("data.pvc", "nonsense");
    for (metadata, who) in [
        (json!({}), "neither Kubernetes nor Volume Warden creates it"),
        (set("apps/v1"), "the StatefulSet web creates it"),
        (
            set("apps.kruise.io/v1"),
            "neither Kubernetes nor Volume Warden creates it",
        ),
        (
            annotated(&[("data.enabled", "true"), ("data.pvc", TEMPLATE)]),
            "request it from Volume Warden's pvc-provisioner",
        ),
        (
            annotated(&[("data.enabled", "false"), ("data.pvc", TEMPLATE)]),
            "neither Kubernetes nor Volume Warden creates it",
        ),
        (
            annotated(&[("data.enabled", "true"), invalid]),
            "the pod's annotations request it",
        ),
        (
            annotated(&[("data.enabled", "yes"), ("data.pvc", TEMPLATE)]),
            "the pod's annotations request it",
        ),
        (
            annotated(&[("dat.enabled", "true"), ("dat.pvc", TEMPLATE)]),
            "the pod's annotations request it",
        ),
        (
            annotated(&[("other.enabled", "true"), ("other.pvc", "nonsense")]),
            "neither Kubernetes nor Volume Warden creates it",
        ),
    ] {
        let sentence = sentence_of(&metadata);
        assert!(sentence.contains(who), "{metadata}: {sentence}");
    }
}

/// The StorageClass of the template decides which quotas limit the claim.
#[test]
fn what_is_asked_for_is_read_from_the_template() {
    let quota = |class: &str| format!("{class}.storageclass.storage.k8s.io/requests.storage");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web-0", "annotations": annotated(&[("data.enabled", "true"), ("data.pvc", TEMPLATE)])["annotations"]},
        "spec": {"containers": [], "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {
                "storageClassName": "slow", "resources": {"requests": {"storage": "1Gi"}}}}}},
        ]},
        "status": {"phase": "Pending"},
    }))
    .expect("a pod");
    let needs = |mounted: &Mounted<'_>| {
        let want = want(&maker(&pod, mounted), mounted);
        (want.needs(&quota("fast")), want.needs(&quota("slow")))
    };
    let all = mounted(&pod);
    let gibibyte = 1_073_741_824.0;
    assert_eq!(needs(&all[0]), (Some(2.0 * gibibyte), None));
    assert_eq!(needs(&all[1]), (None, Some(gibibyte)));
    assert_eq!(all[1].claim, "web-0-scratch");
}
