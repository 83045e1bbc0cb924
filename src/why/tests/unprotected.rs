//! Tests of claims that lack the protection finalizer while no replica is ready.

use super::*;

fn data() -> Object {
    Object::claim("shop", "data")
}

/// A cluster with a Bound claim that lacks the finalizer, and a webhook without endpoints.
fn down() -> Cluster {
    let claim = json!({
        "metadata": {"name": "data", "namespace": "shop", "uid": "u"},
        "spec": {"volumeName": "disk"}, "status": {"phase": "Bound"},
    });
    let configuration = json!({
        "metadata": {"name": "volume-warden-pvc-protection"},
        "webhooks": [{
            "name": "claims.pvc-protection.volume-warden.dev", "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "volume-warden", "name": "volume-warden"}},
        }],
    });
    let configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    Cluster::default()
        .claim(claim)
        .with(configurations, configuration)
}

fn disk() -> Value {
    json!({
        "metadata": {"name": "disk"},
        "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": "u"}},
        "status": {"phase": "Bound"},
    })
}

fn shop(labels: &Value) -> Value {
    json!({"metadata": {"name": "shop", "labels": labels}})
}

#[tokio::test]
async fn a_missing_finalizer_does_not_hide_that_the_volume_is_lost() {
    let answer = down().explained(&data()).await;
    assert_eq!(codes(&answer), [Code::VolumeMissing]);
    let answer = down().volume(disk()).explained(&data()).await;
    assert_eq!(codes(&answer), [Code::WebhookDown]);
}

/// Volume Warden adds no finalizer in a namespace that has opted out, whether or not it runs.
#[tokio::test]
async fn in_a_namespace_that_has_opted_out_no_webhook_is_down() {
    let namespaces = "/api/v1/namespaces";
    for (labels, expected) in [
        (json!({}), Some(Code::WebhookDown)),
        (json!({"volume-warden.dev/exclude": "true"}), None),
    ] {
        let cluster = down().volume(disk()).with(namespaces, shop(&labels));
        let answer = cluster.explained(&data()).await;
        assert_eq!(codes(&answer).first().copied(), expected, "{labels}");
    }
}
