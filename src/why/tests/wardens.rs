use super::*;

/// A claim that no pod uses and that was deleted at this time.
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

/// A running controller counts as late only a minute after the deletion.
#[tokio::test]
async fn a_volume_warden_that_holds_its_lease_and_is_late() {
    let data = Object::claim("shop", "data");
    let codes_at = async |at: &str, renewed: &str| {
        let cluster = deleted(at).lease(lease(renewed));
        cluster.explained(&data).await
    };
    let (now, long_ago) = ("2026-01-01T00:59:58.000000Z", "2026-01-01T00:50:00.000000Z");
    let in_time = codes_at("2026-01-01T00:59:50Z", now).await;
    assert_eq!(codes(&in_time), [Code::NotInUse]);
    let late = codes_at("2026-01-01T00:58:00Z", now).await;
    assert_eq!(codes(&late), [Code::NotInUse, Code::OwnerNotRunning]);
    assert!(command(&late).starts_with("kubectl logs -n volume-warden"));
    let silent = codes_at("2026-01-01T00:58:00Z", long_ago).await;
    assert!(command(&silent).starts_with("kubectl get pods -n volume-warden"));
}
