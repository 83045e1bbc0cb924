//! Tests of Pending claims for which no provisioner creates a volume.

use super::*;

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

fn data() -> Object {
    Object::claim("shop", "data")
}

/// The external-provisioner creates no volume for a data source of a kind that it does not know:
/// the controller of that kind does. Kind, group and name of the data source can be any text.
#[tokio::test]
async fn a_claim_for_a_volume_populator() {
    let show = "kubectl get ReplicationDestination.volsync.backube app-dst -n shop -o yaml";
    let describe = "kubectl describe pvc data -n shop";
    for (group, kind, name, sentence, expected) in [
        (
            "volsync.backube",
            "ReplicationDestination",
            "app-dst",
            "ReplicationDestination app-dst",
            show,
        ),
        (
            "volsync.backube",
            "ReplicationDestination",
            "x; curl evil",
            "controller of that kind",
            describe,
        ),
        (
            "volsync.backube",
            "$(evil)",
            "app-dst",
            "controller of that kind",
            describe,
        ),
        (
            "",
            "ReplicationDestination",
            "app-dst",
            "controller of that kind",
            describe,
        ),
        (
            "snapshot.storage.k8s.io",
            "VolumeSnapshot",
            "app-dst",
            "created no volume",
            describe,
        ),
    ] {
        let source = json!({"apiGroup": group, "kind": kind, "name": name});
        let class = json!({"metadata": {"name": "fast"}, "provisioner": "example.com/disks", "volumeBindingMode": "Immediate"});
        let claim = json!({
            "metadata": {"name": "data", "namespace": "shop", "uid": "c"},
            "spec": {"storageClassName": "fast", "dataSourceRef": source, "dataSource": source},
            "status": {"phase": "Pending"},
        });
        let cluster = Cluster::default().with(CLASSES, class).claim(claim);
        let answer = cluster.explained(&data()).await;
        assert_eq!(codes(&answer), [Code::ProvisionerSilent], "{source}");
        let said = &answer.chain[0].sentence;
        assert!(said.contains(sentence), "{said}");
        assert_eq!(command(&answer), expected, "{source}");
    }
}

/// Kubernetes binds a claim only to a volume with the same VolumeAttributesClass. No class equals
/// the empty class.
#[tokio::test]
async fn a_claim_whose_volume_has_another_attributes_class() {
    let manual =
        json!({"metadata": {"name": "manual"}, "provisioner": "kubernetes.io/no-provisioner"});
    for (wanted, has, expected) in [
        (json!("gold"), json!(null), Code::NoMatchingVolume),
        (json!(null), json!("gold"), Code::NoMatchingVolume),
        (json!(""), json!(null), Code::ProvisionerSilent),
        (json!("gold"), json!("gold"), Code::ProvisionerSilent),
    ] {
        let claim = json!({
            "metadata": {"name": "data", "namespace": "shop", "uid": "c"}, "status": {"phase": "Pending"},
            "spec": {"storageClassName": "manual", "volumeAttributesClassName": wanted},
        });
        let disk = json!({
            "metadata": {"name": "disk"}, "status": {"phase": "Available"},
            "spec": {"storageClassName": "manual", "volumeAttributesClassName": has},
        });
        let cluster = Cluster::default().with(CLASSES, manual.clone());
        let answer = cluster.claim(claim).volume(disk).explained(&data()).await;
        assert_eq!(codes(&answer), [expected], "{wanted} {has}");
        let sentence = &answer.chain[0].sentence;
        let differs = sentence.contains("VolumeAttributesClass");
        assert_eq!(differs, expected == Code::NoMatchingVolume, "{sentence}");
    }
}
