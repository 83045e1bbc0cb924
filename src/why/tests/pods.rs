use super::*;

/// A cluster with a claim that is being deleted, and a pod that uses the claim.
fn used(metadata: Value, phase: &str) -> Cluster {
    let claim = json!({
        "metadata": {
            "name": "data", "namespace": "shop", "deletionTimestamp": "2026-01-01T00:10:00Z", "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "status": {"phase": "Bound"},
    });
    let mut pod = json!({
        "metadata": {"name": "web", "namespace": "shop"}, "status": {"phase": phase},
        "spec": {"nodeName": "node", "containers": [], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    });
    json_patch::merge(&mut pod["metadata"], &metadata);
    Cluster::default().claim(claim).pod(pod)
}

fn data() -> Object {
    Object::claim("shop", "data")
}

fn with_its_node(cluster: Cluster) -> Cluster {
    cluster.with("/api/v1/nodes", json!({"metadata": {"name": "node"}}))
}

#[tokio::test]
async fn a_user_whose_node_is_gone() {
    let answer = used(json!({}), "Running").explained(&data()).await;
    assert_eq!(codes(&answer), [Code::InUse, Code::NodeLost]);
    assert_eq!(command(&answer), "kubectl get node node");
    let finished = used(json!({}), "Succeeded").explained(&data()).await;
    assert_eq!(codes(&finished), [Code::FinishedPod], "it runs nowhere");
}

#[tokio::test]
async fn a_user_that_is_being_deleted_on_a_lost_node() {
    let condition = json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"});
    let node = json!({"metadata": {"name": "node"}, "status": {"conditions": [condition]}});
    let sentence_in = async |phase: &str| {
        let deleting =
            json!({"deletionTimestamp": "2026-01-01T00:30:00Z", "deletionGracePeriodSeconds": 30});
        let cluster = used(deleting, phase).with("/api/v1/nodes", node.clone());
        let answer = cluster.explained(&data()).await;
        let root = answer.root().expect("a root");
        assert_eq!(root.code, Code::NodeLost);
        assert_eq!(command(&answer), "kubectl describe node node");
        assert_eq!(
            purpose(&answer),
            "to see why the node does not answer. If its machine is certainly off, taint it with \
             node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        );
        root.sentence.clone()
    };
    assert_eq!(
        sentence_in("Running").await,
        "The node node of the pod does not answer (NodeStatusUnknown), so it is unknown whether the pod still runs, and the claim is kept for it."
    );
    assert_eq!(
        sentence_in("Succeeded").await,
        "The node node of the pod does not answer (NodeStatusUnknown), so no kubelet completes the deletion of the pod, which has finished."
    );
}

/// The grace period is over. The kubelet reports that the containers have stopped before it
/// unmounts the volumes.
#[tokio::test]
async fn a_user_whose_volumes_are_not_unmounted() {
    let ready = json!({"type": "Ready", "status": "True"});
    let node = json!({"metadata": {"name": "node"}, "status": {"conditions": [ready]}});
    for (phase, said, next) in [
        (
            "Failed",
            "all its containers have stopped, but",
            "kubectl describe node node",
        ),
        (
            "Running",
            "not reported yet that all",
            "kubectl describe pod web -n shop",
        ),
    ] {
        let deleting =
            json!({"deletionTimestamp": "2026-01-01T00:30:00Z", "deletionGracePeriodSeconds": 30});
        let cluster = used(deleting, phase).with("/api/v1/nodes", node.clone());
        let answer = cluster.explained(&data()).await;
        let root = answer.root().expect("a root");
        assert_eq!(root.code, Code::PodTerminating);
        assert!(root.sentence.contains(said), "{root:?}");
        assert_eq!(command(&answer), next);
    }
}

/// The kubelet of the node answers, so the pod may still run.
#[tokio::test]
async fn a_user_whose_node_is_not_ready() {
    let condition = json!({"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "container runtime is down"});
    let node = json!({"metadata": {"name": "node"}, "status": {"conditions": [condition]}});
    let cluster = used(json!({}), "Running").with("/api/v1/nodes", node);
    let answer = cluster.explained(&data()).await;
    assert_eq!(codes(&answer), [Code::InUse, Code::NodeNotReady]);
    assert_eq!(command(&answer), "kubectl describe node node");
    let root = answer.root().expect("a root");
    assert!(
        root.sentence.ends_with(": container runtime is down."),
        "{root:?}"
    );
}

/// kubectl reads `job` as the Job of Kubernetes, so a command with the kind of another API would
/// delete another object.
#[tokio::test]
async fn the_controller_of_a_user_is_known_by_its_api_group() {
    let pod = "kubectl get pod web -n shop -o yaml";
    let delete = "kubectl delete pod web -n shop";
    let job = "kubectl delete job train -n shop";
    let set = "volume-warden why statefulset train -n shop";
    let scale = "kubectl scale replicaset train -n shop --replicas=0";
    for (api_version, kind, phase, expected) in [
        ("batch/v1", "Job", "Running", job),
        ("batch.volcano.sh/v1alpha1", "Job", "Running", pod),
        ("batch/v1", "Job", "Succeeded", job),
        ("batch.volcano.sh/v1alpha1", "Job", "Succeeded", pod),
        ("apps/v1", "StatefulSet", "Running", set),
        ("apps.kruise.io/v1beta1", "StatefulSet", "Running", pod),
        ("apps/v1", "ReplicaSet", "Running", scale),
        ("apps/v1", "ReplicaSet", "Failed", delete),
        ("example.com/v1", "ReplicaSet", "Running", pod),
        ("apps/v1", "DaemonSet", "Running", pod),
    ] {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": "train", "uid": "o", "controller": true});
        let cluster = used(json!({"ownerReferences": [owner]}), phase);
        let answer = with_its_node(cluster).explained(&data()).await;
        assert_eq!(answer.chain.len(), 1, "{api_version} {kind} {phase}");
        assert_eq!(command(&answer), expected, "{api_version} {kind} {phase}");
    }
    let alone = with_its_node(used(json!({}), "Running"));
    assert_eq!(command(&alone.explained(&data()).await), delete);
}

/// A cluster in which the pod `web`, whose claim is bound to this volume, has no node.
pub(super) fn unscheduled(volume: Value) -> Cluster {
    let claim = json!({
        "metadata": {"name": "data", "namespace": "shop", "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"volumeName": "disk"}, "status": {"phase": "Bound"},
    });
    let condition =
        json!({"type": "PodScheduled", "status": "False", "message": "no nodes available"});
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        "status": {"phase": "Pending", "conditions": [condition]},
    });
    Cluster::default().claim(claim).volume(volume).pod(pod)
}

/// A user who may not read nodes gets the scheduler's message, and no conclusion about volumes.
#[tokio::test]
async fn a_pod_without_a_node_whose_nodes_are_not_known() {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
    let affinity = json!({"required": {"nodeSelectorTerms": [term]}});
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"nodeAffinity": affinity}});
    let cluster = || unscheduled(volume.clone());
    let web = Object::pod("shop", "web");
    let answer = cluster().explained(&web).await;
    assert_eq!(codes(&answer), [Code::NoNodeForVolume]);
    let answer = cluster().without("nodes").explained(&web).await;
    assert_eq!(codes(&answer), [Code::PodUnscheduled]);
    let said = &answer.root().expect("a root").sentence;
    assert!(said.ends_with("The scheduler says: no nodes available."));
    assert_eq!(answer.unread, ["nodes could not be read: not for you"]);
}

/// A volume that any node can use is no reason why a pod has no node, also if there are no nodes.
#[tokio::test]
async fn a_pod_in_a_cluster_without_nodes() {
    let csi = json!({"driver": "csi.example.com", "volumeHandle": "1"});
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"csi": csi}});
    let cluster = unscheduled(volume);
    let answer = cluster.explained(&Object::pod("shop", "web")).await;
    assert_eq!(codes(&answer), [Code::NoVolumeProblem]);
}

/// `why` for a claim ends with the same root as `why` for the pod that uses the claim.
#[tokio::test]
async fn a_user_that_is_being_deleted() {
    let deleted = |at: &str, finalizers: Value| {
        let changes = json!({"deletionTimestamp": at, "deletionGracePeriodSeconds": 30, "finalizers": finalizers});
        with_its_node(used(changes, "Running"))
    };
    let (over, under_way) = ("2026-01-01T00:30:00Z", "2026-01-01T01:00:10Z");
    for (at, finalizers, root) in [
        (over, json!([]), Code::PodTerminating),
        (under_way, json!([]), Code::PodTerminating),
        (over, json!(["example.com/hold"]), Code::ForeignFinalizer),
    ] {
        let of_claim = deleted(at, finalizers.clone()).explained(&data()).await;
        let web = Object::pod("shop", "web");
        let of_pod = deleted(at, finalizers).explained(&web).await;
        assert_eq!(codes(&of_claim), [Code::InUse, root]);
        assert_eq!(of_claim.root(), of_pod.root());
    }
    let began = deleted(over, json!([])).explained(&data()).await;
    let since = began.root().and_then(|root| root.evidence.since);
    assert_eq!(since, "2026-01-01T00:29:30Z".parse().ok());
}

/// The value of `--template-fields` in the cluster is not known.
#[tokio::test]
async fn a_template_with_a_restricted_field_may_not_be_why_the_claim_is_missing() {
    let template = "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadWriteOnce], selector: {}, \
        resources: {requests: {storage: 2Gi}}}}";
    let prefix = crate::objects::claim_requests::PREFIX;
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "annotations": {
            format!("{prefix}data.enabled"): "true", format!("{prefix}data.pvc"): template,
        }},
        "spec": {"containers": [], "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        ]},
        "status": {"phase": "Pending"},
    });
    let quota = |used: &str| {
        let hard = json!({"persistentvolumeclaims": "2"});
        let used = json!({"persistentvolumeclaims": used});
        json!({"metadata": {"name": "small"}, "status": {"hard": hard, "used": used}})
    };
    for (used, code, part) in [
        (
            "1",
            Code::InvalidTemplate,
            "With the default of --template-fields",
        ),
        ("2", Code::QuotaExhausted, "small"),
    ] {
        let cluster = Cluster::default().pod(pod.clone());
        let cluster = cluster.with("/api/v1/namespaces/shop/resourcequotas", quota(used));
        let answer = cluster.explained(&Object::pod("shop", "web")).await;
        assert_eq!(codes(&answer), [Code::ClaimMissing, code]);
        let sentence = &answer.chain[1].sentence;
        assert!(sentence.contains(part), "{sentence}");
    }
}
