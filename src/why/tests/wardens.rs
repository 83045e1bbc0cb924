use super::*;

/// A claim that nothing uses was deleted then.
fn deleted(at: &str) -> Cluster {
    let claim = json!({
        "metadata": {"name": "data", "namespace": "shop", "deletionTimestamp": at, "finalizers": ["kubernetes.io/pvc-protection"]},
    });
    Cluster::default().claim(claim)
}

fn lease(renewed: &str) -> Value {
    json!({
        "metadata": {
            "name": "volume-warden", "namespace": "volume-warden", "labels": {"volume-warden.dev/pvc-protection": "true"},
        },
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": renewed},
    })
}

/// Somebody who is at work is given a minute.
#[tokio::test]
async fn a_volume_warden_that_holds_its_lease_and_is_late() {
    let renewed = "2026-01-01T00:59:58.000000Z";
    let data = Object::claim("shop", "data");
    let told = async |at: &str| {
        let cluster = deleted(at).lease(lease(renewed));
        codes(&cluster.explained(&data).await)
    };
    assert_eq!(told("2026-01-01T00:59:50Z").await, [Code::Unused]);
    let late = told("2026-01-01T00:58:00Z").await;
    assert_eq!(late, [Code::Unused, Code::OwnerNotRunning]);
    let answer = deleted("2026-01-01T00:58:00Z").lease(lease(renewed));
    let answer = answer.explained(&data).await;
    assert!(command(&answer).starts_with("kubectl logs -n volume-warden"));
    let silent = deleted("2026-01-01T00:58:00Z").lease(lease("2026-01-01T00:50:00.000000Z"));
    let answer = silent.explained(&data).await;
    assert!(command(&answer).starts_with("kubectl get pods -n volume-warden"));
}
