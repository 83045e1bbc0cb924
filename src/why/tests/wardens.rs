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

/// The claim of a StatefulSet whose owner references kube-controller-manager has written, while
/// Volume Warden's pvc-retention runs.
#[tokio::test]
async fn a_claim_that_two_controllers_manage_needs_no_action() {
    let wrote = json!({
        "manager": "kube-controller-manager", "operation": "Update",
        "fieldsV1": {"f:metadata": {"f:ownerReferences": {}}},
    });
    let claim = json!({
        "metadata": {
            "name": "data-web-0", "namespace": "shop", "uid": "c", "managedFields": [wrote],
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {"volumeName": "disk", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    });
    let volume = json!({
        "metadata": {"name": "disk"}, "status": {"phase": "Bound"},
        "spec": {"claimRef": {"namespace": "shop", "name": "data-web-0", "uid": "c"}},
    });
    let mut lease = lease("2026-01-01T00:59:58.000000Z");
    lease["metadata"]["labels"] = json!({"volume-warden.dev/pvc-retention": "true"});
    let cluster = Cluster::default().claim(claim).volume(volume).lease(lease);
    let answer = cluster
        .explained(&Object::claim("shop", "data-web-0"))
        .await;
    assert_eq!(codes(&answer), [Code::BothActive]);
    assert_eq!(
        command(&answer),
        "kubectl get pvc data-web-0 -n shop -o yaml --show-managed-fields"
    );
    assert_eq!(
        purpose(&answer),
        "to see which fields of the claim kube-controller-manager and Volume Warden wrote. They do \
         not harm each other, and nothing has to be done. To use only one, run Volume Warden \
         without pvc-retention: since Kubernetes 1.32, that controller of Kubernetes cannot be \
         disabled"
    );
}
