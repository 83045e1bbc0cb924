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

/// kube-controller-manager emits an Event with the reason of provisioners while the StorageClass
/// does not exist. It outlives the creation of the class by an hour.
#[tokio::test]
async fn an_event_of_the_binder_is_no_failure_of_an_external_provisioner() {
    for (provisioner, component, expected) in [
        (
            "example.com/disks",
            "persistentvolume-controller",
            Code::ProvisionerSilent,
        ),
        (
            "example.com/disks",
            "example.com/disks_1",
            Code::ProvisionerFailed,
        ),
        (
            "kubernetes.io/portworx-volume",
            "persistentvolume-controller",
            Code::ProvisionerFailed,
        ),
    ] {
        let class = json!({"metadata": {"name": "fast"}, "provisioner": provisioner});
        let claim = json!({
            "metadata": {"name": "data", "namespace": "shop", "uid": "c"},
            "spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"},
        });
        let about = json!({"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "c"});
        let event = json!({
            "metadata": {"name": "event", "namespace": "shop"}, "involvedObject": about,
            "reason": "ProvisioningFailed", "source": {"component": component},
            "message": "storageclass.storage.k8s.io \"fast\" not found",
        });
        let cluster = Cluster::default().with(CLASSES, class).claim(claim);
        let cluster = cluster.with("/api/v1/namespaces/shop/events", event);
        let answer = cluster.explained(&data()).await;
        assert_eq!(codes(&answer), [expected], "{provisioner} {component}");
    }
}

/// The provisioner cannot create the volume in the zone of the node, and removes the annotation of
/// the node from the claim, so the scheduler selects one again. Its message names no cause.
#[tokio::test]
async fn a_provisioner_without_capacity_is_the_cause_and_not_the_scheduler() {
    let class = json!({"metadata": {"name": "fast"}, "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer"});
    let about =
        json!({"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "c"});
    let event = json!({
        "metadata": {"name": "event", "namespace": "shop"}, "involvedObject": about,
        "reason": "ProvisioningFailed", "source": {"component": "example.com/disks_1"},
        "message": "rpc error: code = ResourceExhausted",
    });
    let (unscheduled, failed) = (Code::PodUnscheduled, Code::ProvisionerFailed);
    for (reason, event, expected) in [
        ("SchedulerError", Some(&event), failed),
        ("SchedulerError", None, unscheduled),
        ("Unschedulable", Some(&event), unscheduled),
    ] {
        let claim = json!({
            "metadata": {"name": "data", "namespace": "shop", "uid": "c"},
            "spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"},
        });
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": reason,
            "message": "binding volumes: provisioning failed for PVC \"data\""});
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"containers": [], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
            "status": {"phase": "Pending", "conditions": [condition]},
        });
        let cluster = || {
            let cluster = Cluster::default().with(CLASSES, class.clone());
            let cluster = cluster.claim(claim.clone()).pod(pod.clone());
            event.into_iter().fold(cluster, |cluster, event| {
                cluster.with("/api/v1/namespaces/shop/events", event.clone())
            })
        };
        assert_eq!(codes(&cluster().explained(&data()).await), [expected]);
        let answer = cluster().explained(&Object::pod("shop", "web")).await;
        assert_eq!(codes(&answer), [Code::ClaimPending, expected]);
    }
}

/// Each of the two annotations makes a StorageClass a default, so each one has to be changed.
#[tokio::test]
async fn every_annotation_that_makes_a_class_the_default_is_changed() {
    let current = "storageclass.kubernetes.io/is-default-class";
    let beta = "storageclass.beta.kubernetes.io/is-default-class";
    for (annotations, changes) in [
        (json!({current: "true"}), format!("{current}=false")),
        (json!({beta: "true"}), format!("{beta}=false")),
        (
            json!({current: "false", beta: "true"}),
            format!("{beta}=false"),
        ),
        (
            json!({current: "true", beta: "true"}),
            format!("{current}=false {beta}=false"),
        ),
    ] {
        let class = |name: &str, created: &str, annotations: &Value| {
            json!({
                "metadata": {"name": name, "creationTimestamp": created, "annotations": annotations},
                "provisioner": "example.com/disks",
            })
        };
        let old = class("old", "2025-01-01T00:00:00Z", &json!({current: "true"}));
        let new = class("new", "2025-02-01T00:00:00Z", &annotations);
        let claim = json!({
            "metadata": {"name": "data", "namespace": "shop", "uid": "c"},
            "spec": {"storageClassName": "new"}, "status": {"phase": "Pending"},
        });
        let cluster = Cluster::default().with(CLASSES, old).with(CLASSES, new);
        let answer = cluster.claim(claim).explained(&data()).await;
        let root = answer.root().expect("a root");
        assert_eq!(root.code, Code::TwoDefaultClasses);
        let expected = format!("kubectl annotate storageclass new {changes} --overwrite");
        assert_eq!(command(&answer), expected);
        let first = changes.split('=').next().expect("a key");
        assert_eq!(
            root.evidence.field,
            format!("metadata.annotations[{first}]")
        );
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
