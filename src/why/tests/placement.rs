//! Tests of pods that get no node, or not because of their volumes.

use super::{health::merged, pods::unscheduled, *};

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";

fn web() -> Object {
    Object::pod("shop", "web")
}

fn node(name: &str, labels: &Value, spec: &Value) -> Value {
    let ready = json!({"type": "Ready", "status": "True"});
    let labels = merged(labels.clone(), &json!({HOSTNAME: name}));
    json!({
        "metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"conditions": [ready]},
    })
}

/// The pod needs a volume in zone a, where a node of the control plane and `w1` are. The node `w2`
/// is in zone b.
fn zones(w1: &Value, tolerations: &Value) -> Cluster {
    let zone = json!({"key": ZONE, "operator": "In", "values": ["a"]});
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}});
    let csi = json!({"driver": "csi.example.com", "volumeHandle": "1"});
    let spec = json!({"csi": csi, "nodeAffinity": affinity});
    let mut cluster = unscheduled(json!({"metadata": {"name": "disk"}, "spec": spec}));
    for (collection, object) in &mut cluster.objects {
        if collection.ends_with("/pods") {
            object["spec"]["tolerations"] = tolerations.clone();
        }
    }
    let taint = json!({"key": CONTROL_PLANE, "effect": "NoSchedule"});
    let (a, b) = (json!({ZONE: "a"}), json!({ZONE: "b"}));
    [
        node("cp", &a, &json!({"taints": [taint]})),
        node("w1", &a, w1),
        node("w2", &b, &json!({})),
    ]
    .into_iter()
    .fold(cluster, |all, node| all.with("/api/v1/nodes", node))
}

/// The pod needs a volume in zone a, where the node `one` is, and selects nodes by these fields of
/// its spec. The node `two` is in zone b.
fn pinned(two: Option<&Value>, selection: &Value) -> Cluster {
    let zone = json!({"metadata": {"name": "disk", "labels": {ZONE: "a"}}, "spec": {}});
    let mut cluster = unscheduled(zone);
    for (collection, object) in &mut cluster.objects {
        if collection.ends_with("/pods") {
            json_patch::merge(&mut object["spec"], selection);
        }
    }
    let one = node("one", &json!({ZONE: "a"}), &json!({}));
    let two = two.map(|spec| node("two", &json!({ZONE: "b"}), spec));
    let nodes = [Some(one), two].into_iter().flatten();
    nodes.fold(cluster, |all, node| all.with("/api/v1/nodes", node))
}

/// The node of the volume lacks room, which is not examined, and another node may have it.
#[tokio::test]
async fn a_volume_that_excludes_a_node_may_be_why_the_pod_has_none() {
    let affine = |zone: &str| {
        let zone = json!({"key": ZONE, "operator": "In", "values": [zone]});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [zone]}]});
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
        json!({"affinity": {"nodeAffinity": required}})
    };
    let selects = |zone: &str| json!({"nodeSelector": {ZONE: zone}});
    let (free, any) = (json!({}), json!({}));
    let tainted = json!({"taints": [{"key": "only", "effect": "NoSchedule"}]});
    let cordoned = json!({"unschedulable": true});
    let (may, no) = (Code::PodUnscheduled, Code::NoVolumeProblem);
    for (two, selection, expected) in [
        (Some(&free), any.clone(), may),
        (Some(&free), selects("b"), may),
        (Some(&free), affine("b"), may),
        (Some(&free), selects("a"), no),
        (Some(&free), affine("a"), no),
        (Some(&tainted), any.clone(), no),
        (Some(&cordoned), any.clone(), no),
        (None, any, no),
    ] {
        let answer = pinned(two, &selection).explained(&web()).await;
        assert_eq!(codes(&answer), [expected], "{two:?} {selection}");
    }
    let answer = pinned(Some(&free), &json!({})).explained(&web()).await;
    assert_eq!(
        answer.chain[0].sentence,
        "The pod shop/web has no node. The scheduler says: no nodes available. The pod's volumes (disk) exclude \
         these nodes, which may have room for it: two."
    );
}

/// The volume excludes every node, but a gate keeps the pod, or no scheduler runs.
#[tokio::test]
async fn volumes_are_no_cause_before_a_scheduler_has_looked_for_a_node() {
    let gated = json!({"spec": {"schedulingGates": [{"name": "example.com/queue"}]}});
    let unseen = json!({"status": {"conditions": []}});
    for (changes, expected) in [
        (json!({}), Code::NoNodeForVolume),
        (gated, Code::NoVolumeProblem),
        (unseen, Code::NoVolumeProblem),
    ] {
        let cordoned = json!({"unschedulable": true});
        let mut cluster = zones(&cordoned, &json!([]));
        for (collection, object) in &mut cluster.objects {
            if collection.ends_with("/pods") {
                json_patch::merge(object, &changes);
            }
        }
        let answer = cluster.explained(&web()).await;
        assert_eq!(codes(&answer), [expected], "{changes}");
    }
}

/// The volumes of `w1` are as many as its CSI driver permits.
fn with_full_w1(cluster: Cluster) -> Cluster {
    let driver = json!({"name": "csi.example.com", "nodeID": "w1", "allocatable": {"count": 1}});
    let limit = json!({"metadata": {"name": "w1"}, "spec": {"drivers": [driver]}});
    let source = json!({"persistentVolumeName": "other"});
    let attached = json!({
        "metadata": {"name": "attached"},
        "spec": {"attacher": "csi.example.com", "nodeName": "w1", "source": source},
    });
    cluster
        .with("/apis/storage.k8s.io/v1/csinodes", limit)
        .with("/apis/storage.k8s.io/v1/volumeattachments", attached)
}

fn control_plane() -> Value {
    json!([{"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}])
}

#[tokio::test]
async fn a_node_whose_taint_the_pod_does_not_tolerate_takes_no_pod() {
    let cordoned = json!({"unschedulable": true});
    let answer = zones(&cordoned, &json!([])).explained(&web()).await;
    assert_eq!(codes(&answer), [Code::NoNodeForVolume]);
    assert_eq!(command(&answer), "kubectl describe node w1");
    let root = answer.root().expect("a root");
    assert_eq!(root.evidence.field, "spec.unschedulable");
    assert_eq!(
        root.sentence,
        "Of the nodes that match the pod's node selector and affinity, only these can use its volumes (disk), but the pod cannot be scheduled on any of them: cp has the taint \
         node-role.kubernetes.io/control-plane:NoSchedule, w1 is cordoned."
    );
    let tolerated = zones(&cordoned, &control_plane()).explained(&web()).await;
    assert_eq!(codes(&tolerated), [Code::PodUnscheduled]);
}

#[tokio::test]
async fn a_node_that_takes_no_pod_has_no_room_for_its_volumes() {
    let full = |tolerations: &Value| with_full_w1(zones(&json!({}), tolerations));
    let answer = full(&json!([])).explained(&web()).await;
    assert_eq!(codes(&answer), [Code::TooManyVolumes]);
    let root = answer.root().expect("a root");
    assert!(root.sentence.ends_with(": w1 has 1 of 1 attached."));
    let tolerated = full(&control_plane()).explained(&web()).await;
    assert_eq!(codes(&tolerated), [Code::PodUnscheduled]);
}

/// A node that the pod does not select takes no pod either.
#[tokio::test]
async fn only_the_nodes_that_the_pod_selects_can_take_it() {
    let selecting = |mut cluster: Cluster| {
        for (collection, object) in &mut cluster.objects {
            if collection.ends_with("/pods") {
                object["spec"]["nodeSelector"] = json!({HOSTNAME: "w1"});
            }
        }
        cluster
    };
    let zones = |w1: &Value| selecting(zones(w1, &control_plane()));
    let full = with_full_w1(zones(&json!({}))).explained(&web()).await;
    assert_eq!(codes(&full), [Code::TooManyVolumes]);
    let root = full.root().expect("a root");
    assert!(root.sentence.ends_with(": w1 has 1 of 1 attached."));
    let cordoned = json!({"unschedulable": true});
    let cordoned = zones(&cordoned).explained(&web()).await;
    assert_eq!(codes(&cordoned), [Code::NoNodeForVolume]);
    let sentence = &cordoned.root().expect("a root").sentence;
    assert!(
        sentence.ends_with("on any of them: w1 is cordoned."),
        "{sentence}"
    );
}

/// A claim that waits for the pod does not hide that the volume of another claim keeps every node
/// from the pod.
#[tokio::test]
async fn a_claim_that_waits_for_the_pod_hides_no_volume() {
    let late = json!({
        "metadata": {"name": "late"}, "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let cache = json!({
        "metadata": {"name": "cache", "namespace": "shop"}, "status": {"phase": "Pending"},
        "spec": {"storageClassName": "late"},
    });
    let with_cache = |mut cluster: Cluster| {
        let source = json!({"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}});
        for (collection, object) in &mut cluster.objects {
            if collection.ends_with("/pods") {
                let volumes = &mut object["spec"]["volumes"];
                volumes
                    .as_array_mut()
                    .expect("volumes")
                    .insert(0, source.clone());
            }
        }
        let classes = "/apis/storage.k8s.io/v1/storageclasses";
        cluster.claim(cache.clone()).with(classes, late.clone())
    };
    let cordoned = json!({"unschedulable": true});
    let answer = with_cache(zones(&cordoned, &json!([])))
        .explained(&web())
        .await;
    assert_eq!(codes(&answer), [Code::ClaimPending, Code::NoNodeForVolume]);
    let zoned = zones(&cordoned, &json!([])).without("nodes");
    let unread = with_cache(zoned).explained(&web()).await;
    assert_eq!(codes(&unread), [Code::ClaimPending, Code::PodUnscheduled]);
}

/// The limit of a node that is cordoned is not why the pod has no node.
#[tokio::test]
async fn a_full_node_that_is_cordoned_is_reported_as_cordoned() {
    let cluster = with_full_w1(zones(&json!({"unschedulable": true}), &json!([])));
    let answer = cluster.explained(&web()).await;
    assert_eq!(codes(&answer), [Code::NoNodeForVolume]);
}

/// The scheduler permits these nodes, so the pod lacks something else, such as CPU.
#[tokio::test]
async fn zone_labels_are_compared_as_kube_scheduler_does() {
    for (key, labels, expected) in [
        (BETA_ZONE, json!({ZONE: "a"}), Code::NoVolumeProblem),
        (ZONE, json!({}), Code::NoVolumeProblem),
        (ZONE, json!({ZONE: "b"}), Code::NoNodeForVolume),
    ] {
        let volume = json!({"metadata": {"name": "disk", "labels": {key: "a"}}, "spec": {}});
        let one = node("one", &labels, &json!({}));
        let cluster = unscheduled(volume).with("/api/v1/nodes", one);
        let answer = cluster.explained(&web()).await;
        assert_eq!(codes(&answer), [expected], "{key} {labels}");
    }
}

/// Another pod may use any of the claims that only one pod at a time may use.
#[tokio::test]
async fn a_second_claim_for_one_pod_at_a_time_may_be_in_use() {
    let exclusive = |name: &str| {
        json!({
            "metadata": {"name": name, "namespace": "shop", "finalizers": ["kubernetes.io/pvc-protection"]},
            "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": name}, "status": {"phase": "Bound"},
        })
    };
    let volume = |name: &str| json!({"metadata": {"name": name}, "spec": {}});
    let pod = |name: &str, claims: &[&str], node: Value| {
        let volumes = claims
            .iter()
            .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
        let volumes: Vec<_> = volumes.collect();
        json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"containers": [], "volumes": volumes, "nodeName": node},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
        })
    };
    let user = |claim: &str| {
        let cluster = Cluster::default()
            .claim(exclusive("own"))
            .claim(exclusive("shared"))
            .volume(volume("own"))
            .volume(volume("shared"))
            .with("/api/v1/nodes", node("n1", &json!({}), &json!({})))
            .pod(pod("web", &["own", "shared"], Value::Null));
        cluster.pod(pod("old", &[claim], json!("n1")))
    };
    for (claim, expected) in [
        ("own", Code::UsedByOtherPod),
        ("shared", Code::UsedByOtherPod),
        ("another", Code::NoVolumeProblem),
    ] {
        let answer = user(claim).explained(&web()).await;
        assert_eq!(codes(&answer), [expected], "{claim}");
    }
}
