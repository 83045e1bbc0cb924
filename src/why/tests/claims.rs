use super::*;

fn data() -> Object {
    Object::claim("shop", "data")
}

fn lost() -> Value {
    json!({"metadata": {"name": "data", "namespace": "shop"}, "spec": {"volumeName": "disk"}, "status": {"phase": "Lost"}})
}

#[tokio::test]
async fn a_claim_whose_volume_is_gone() {
    let answer = Cluster::default().claim(lost()).explained(&data()).await;
    assert_eq!(codes(&answer), [Code::VolumeMissing]);
    assert_eq!(command(&answer), "kubectl describe pvc data -n shop");
}

#[tokio::test]
async fn a_claim_whose_volume_is_another_claims() {
    let other = json!({"metadata": {"name": "disk"}, "spec": {"claimRef": {"namespace": "bank", "name": "money"}}});
    let answer = Cluster::default().claim(lost()).volume(other);
    let answer = answer.explained(&data()).await;
    assert_eq!(codes(&answer), [Code::VolumeReserved]);
    assert!(
        answer.chain[0]
            .sentence
            .ends_with("now belongs to the claim bank/money.")
    );
    assert_eq!(command(&answer), "kubectl describe pv disk");
}

#[tokio::test]
async fn a_claim_whose_volume_is_free_again() {
    let free = json!({"metadata": {"name": "disk"}, "spec": {}});
    let answer = Cluster::default().claim(lost()).volume(free);
    let answer = answer.explained(&data()).await;
    assert!(
        answer.chain[0]
            .sentence
            .ends_with("which no longer belongs to any claim.")
    );
}

/// A pod that names its node in `spec.nodeName` bypasses the scheduler, which then never selects a
/// node for the pod's claim.
#[tokio::test]
async fn a_claim_whose_pod_names_its_node_itself() {
    let class = json!({
        "metadata": {"name": "late"}, "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let claim = json!({
        "metadata": {"name": "data", "namespace": "shop"}, "spec": {"storageClassName": "late"}, "status": {"phase": "Pending"},
    });
    let pod = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {
        "nodeName": "node", "containers": [], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }});
    let answer = Cluster::default()
        .with("/apis/storage.k8s.io/v1/storageclasses", class)
        .claim(claim)
        .pod(pod);
    let answer = answer.explained(&data()).await;
    assert_eq!(codes(&answer), [Code::PodUnscheduled]);
    assert!(answer.chain[0].sentence.contains("spec.nodeName"));
    assert_eq!(command(&answer), "kubectl get pod web -n shop -o yaml");
}
