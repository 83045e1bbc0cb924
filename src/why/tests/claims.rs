use super::*;
use crate::objects::keys::STORAGE_CLASS;

fn data() -> Object {
    Object::claim("shop", "data")
}

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// A StorageClass whose claims are bound when a pod uses them.
fn late() -> Value {
    json!({
        "metadata": {"name": "late"}, "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer",
    })
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

/// A claim that is applied again from an export has a new uid and the annotation
/// `bind-completed`. With it, the claim stays Lost even if `claimRef` has no uid.
#[tokio::test]
async fn a_claim_whose_volume_is_an_earlier_claims_of_its_name() {
    let again = json!({
        "metadata": {
            "name": "data", "namespace": "shop", "uid": "new",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": "disk"}, "status": {"phase": "Lost"},
    });
    let lease = "kubectl describe lease kube-controller-manager -n kube-system";
    let save = "kubectl get pvc data -n shop -o yaml > data.yaml";
    for (uid, policy, code, expected) in [
        ("old", "Retain", Code::ClaimReplaced, save),
        ("old", "Delete", Code::ClaimReplaced, "Retain"),
        ("", "Retain", Code::VolumeReserved, save),
        ("new", "Retain", Code::ProvisionerSilent, lease),
    ] {
        let disk = json!({
            "metadata": {"name": "disk", "resourceVersion": "7"}, "status": {"phase": "Released"},
            "spec": {
                "persistentVolumeReclaimPolicy": policy,
                "claimRef": {"namespace": "shop", "name": "data", "uid": uid},
            },
        });
        let cluster = Cluster::default().claim(again.clone()).volume(disk);
        let answer = cluster.explained(&data()).await;
        assert_eq!(codes(&answer), [code], "{uid} {policy}");
        let sentence = &answer.chain[0].sentence;
        assert!(!sentence.contains("shop/data"), "{sentence}");
        let command = command(&answer);
        assert!(command.contains(expected), "{command}");
        assert!(!command.contains("/spec/claimRef"), "{command}");
        if expected == save {
            let purpose = purpose(&answer);
            assert!(purpose.contains("annotations under pv.kubernetes.io/"));
        }
    }
}

#[tokio::test]
async fn a_claim_whose_volume_is_free_again() {
    let free = json!({"metadata": {"name": "disk"}, "spec": {}});
    let answer = Cluster::default().claim(lost()).volume(free);
    let answer = answer.explained(&data()).await;
    assert_eq!(codes(&answer), [Code::ProvisionerSilent]);
    let sentence = &answer.chain[0].sentence;
    assert!(
        sentence.contains("which belongs to no other claim;"),
        "{sentence}"
    );
}

/// The `managedFields` of a pod whose creator set its node.
fn placed() -> Value {
    json!([{"manager": "creator", "operation": "Update", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:nodeName": {}}}}])
}

/// A pod that names its node in `spec.nodeName` bypasses the scheduler, which then never selects a
/// node for the pod's claim.
#[tokio::test]
async fn a_claim_whose_pod_names_its_node_itself() {
    let claim = json!({
        "metadata": {"name": "data", "namespace": "shop"}, "spec": {"storageClassName": "late"}, "status": {"phase": "Pending"},
    });
    let pod = json!({"metadata": {"name": "web", "namespace": "shop", "managedFields": placed()}, "spec": {
        "nodeName": "node", "containers": [], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }});
    let answer = Cluster::default()
        .with(CLASSES, late())
        .claim(claim)
        .pod(pod);
    let answer = answer.explained(&data()).await;
    assert_eq!(codes(&answer), [Code::PodUnscheduled]);
    assert!(answer.chain[0].sentence.contains("spec.nodeName"));
    assert_eq!(
        command(&answer),
        "kubectl get pod web -n shop -o yaml --show-managed-fields"
    );
}

/// The scheduler selected the node of a pod that is older than the claim for an earlier claim of
/// the same name. A node that the creator of the pod set is in `managedFields`.
#[tokio::test]
async fn a_claim_that_is_younger_than_its_pod() {
    let claim = json!({
        "metadata": {"name": "data", "namespace": "shop", "creationTimestamp": "2026-01-01T00:30:00Z"},
        "spec": {"storageClassName": "late"}, "status": {"phase": "Pending"},
    });
    let (scheduled, placed) = (json!([]), placed());
    for (phase, minute, fields, expected) in [
        ("Succeeded", "00", &scheduled, Some(Code::WaitsForPod)),
        ("Failed", "40", &scheduled, Some(Code::WaitsForPod)),
        ("Running", "00", &scheduled, Some(Code::WaitsForPod)),
        ("Pending", "00", &placed, Some(Code::PodUnscheduled)),
        // The scheduler selected a node after the claim was read.
        ("Pending", "40", &scheduled, None),
    ] {
        let pod = json!({
            "metadata": {
                "name": "import", "namespace": "shop", "managedFields": fields,
                "creationTimestamp": format!("2026-01-01T00:{minute}:00Z"),
            },
            "spec": {"nodeName": "n7", "containers": [],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
            "status": {"phase": phase},
        });
        let cluster = Cluster::default().with(CLASSES, late());
        let answer = cluster.claim(claim.clone()).pod(pod.clone());
        let answer = answer.explained(&data()).await;
        assert_eq!(codes(&answer), Vec::from_iter(expected), "{pod}");
    }
}

/// Kubernetes reads the StorageClass of a claim or volume from the annotation of before 1.6 first.
#[tokio::test]
async fn the_annotation_names_the_class() {
    for spec in [json!({}), json!({"storageClassName": "absent"})] {
        let claim = json!({
            "metadata": {"name": "data", "namespace": "shop", "annotations": {STORAGE_CLASS: "late"}},
            "spec": spec, "status": {"phase": "Pending"},
        });
        let cluster = Cluster::default().with(CLASSES, late());
        let answer = cluster.claim(claim).explained(&data()).await;
        assert_eq!(codes(&answer), [Code::WaitsForPod], "{spec}");
    }
}

/// The name and the uid of an owner can be any text. In a command it could be run by the shell of
/// an administrator, or select other objects.
#[tokio::test]
async fn owners_put_nothing_into_commands() {
    let deleting = json!({"metadata": {
        "name": "data", "namespace": "shop", "deletionTimestamp": "2026-01-01T00:10:00Z",
        "finalizers": ["kubernetes.io/pvc-protection"],
    }});
    for (api_version, kind, name) in [
        ("batch/v1", "Job", "--all"),
        ("batch/v1", "Job", "x; curl evil"),
        ("apps/v1", "ReplicaSet", "$(curl evil)"),
        ("apps/v1", "StatefulSet", "x\ncurl evil"),
    ] {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "o", "controller": true});
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "ownerReferences": [owner]},
            "spec": {"nodeName": "node", "containers": [],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
            "status": {"phase": "Running"},
        });
        let answer = Cluster::default().claim(deleting.clone()).pod(pod);
        let answer = answer.explained(&data()).await;
        assert!(!answer.chain.is_empty());
        let commands = answer.chain.iter().map(|cause| format!("{:?}", cause.next));
        let commands: Vec<_> = commands.collect();
        assert!(
            commands.iter().all(|next| !next.contains(name)),
            "{commands:?}"
        );
        assert!(
            commands.iter().all(|next| !next.contains("evil")),
            "{commands:?}"
        );
    }
    let quoting = json!({"metadata": {"name": "data", "namespace": "shop", "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u' ; curl evil '"},
    ]}});
    let answer = Cluster::default().claim(quoting).explained(&data()).await;
    assert_eq!(codes(&answer), [Code::DeadOwner]);
    let command = command(&answer);
    assert_eq!(command.matches('\'').count(), 2, "{command}");
    assert!(command.contains("u\\u0027 ; curl evil"), "{command}");
}
