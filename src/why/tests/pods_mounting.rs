//! Tests of pods whose containers are not created yet: the node has not mounted their volumes, or
//! it has and does something else.

use super::*;
use crate::why::{Survey, Which, survey};
use std::time::Duration;

const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
pub(super) const EVENTS: &str = "/api/v1/namespaces/shop/events";

pub(super) fn web() -> Object {
    Object::pod("shop", "web")
}

fn claim(name: &str, volume: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"}, "status": {"phase": "Bound"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": volume},
    })
}

fn volume(modes: Value) -> Value {
    json!({"metadata": {"name": "disk"}, "spec": {"accessModes": modes}})
}

pub(super) fn pod(name: &str, uid: &str, node: &str, claims: &[&str], status: Value) -> Value {
    let volumes = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    let volumes: Vec<_> = volumes.collect();
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": uid}, "status": status,
        "spec": {"nodeName": node, "containers": [], "volumes": volumes},
    })
}

/// The pod `web` on the node n2, which uses these claims, and whether it has a sandbox.
fn creating(claims: &[&str], sandbox: &str) -> Value {
    let waits = json!({
        "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}},
    });
    let condition = json!({"type": "PodReadyToStartContainers", "status": sandbox});
    let status =
        json!({"phase": "Pending", "containerStatuses": [waits], "conditions": [condition]});
    pod("web", "p2", "n2", claims, status)
}

fn old(phase: &str) -> Value {
    pod("old", "p1", "n1", &["data"], json!({"phase": phase}))
}

fn attachment(node: &str, attached: bool) -> Value {
    json!({
        "metadata": {"name": format!("csi-{node}")}, "status": {"attached": attached},
        "spec": {"attacher": "csi.example.com", "nodeName": node, "source": {"persistentVolumeName": "disk"}},
    })
}

fn node(name: &str, ready: &str) -> Value {
    let condition = json!({"type": "Ready", "status": ready});
    json!({"metadata": {"name": name}, "status": {"conditions": [condition]}})
}

/// The claim `data`, bound to the volume `disk`, and the ready node n2.
pub(super) fn shop() -> Cluster {
    Cluster::default()
        .claim(claim("data", "disk"))
        .with("/api/v1/nodes", node("n2", "True"))
}

/// As [`shop`], and the volume is attached to the ready node n1.
pub(super) fn attached_to_n1() -> Cluster {
    shop()
        .with(ATTACHMENTS, attachment("n1", true))
        .with("/api/v1/nodes", node("n1", "True"))
}

/// The Event of the attach-detach controller has expired, and it emits no further one.
#[tokio::test]
async fn another_node_has_the_volume_and_no_event_reports_it() {
    let waits = || creating(&["data"], "False");
    let once = || volume(json!(["ReadWriteOnce"]));
    let blocked: &[Code] = &[Code::NotMounted, Code::Attached, Code::UsedByOtherPod];
    let free: &[Code] = &[Code::NoVolumeProblem];
    let both = || attached_to_n1().with(ATTACHMENTS, attachment("n2", true));
    let requested = || attached_to_n1().with(ATTACHMENTS, attachment("n2", false));
    let shared = volume(json!(["ReadWriteOnce", "ReadWriteMany"]));
    let user = || old("Running");
    for (case, cluster, expected) in [
        (
            "blocked",
            attached_to_n1().pod(user()).volume(once()),
            blocked,
        ),
        ("requested", requested().pod(user()).volume(once()), blocked),
        (
            "finished",
            attached_to_n1().pod(old("Failed")).volume(once()),
            &blocked[..2],
        ),
        ("both nodes", both().pod(user()).volume(once()), free),
        ("shared", attached_to_n1().pod(user()).volume(shared), free),
    ] {
        let answer = cluster.pod(waits()).explained(&web()).await;
        assert_eq!(codes(&answer), expected, "{case}");
        assert_eq!(answer.unread, [""; 0], "{case}");
        if expected == blocked {
            assert_eq!(command(&answer), "kubectl get pod old -n shop -o wide");
        }
    }
    let started = attached_to_n1().pod(creating(&["data"], "True"));
    let started = started.pod(user()).volume(once());
    assert_eq!(codes(&started.explained(&web()).await), free);
}

#[tokio::test]
async fn such_a_pod_is_stuck() {
    let cluster = attached_to_n1()
        .with("/api/v1/namespaces", json!({"metadata": {"name": "shop"}}))
        .pod(creating(&["data"], "False"))
        .pod(old("Running"));
    let which = Which {
        namespace: Some("shop".to_owned()),
        min_age: Duration::from_secs(60),
    };
    let found = survey(cluster.client(), &which, NOW.parse().expect("a time")).await;
    let Survey::Found(stuck) = found else {
        panic!("there is the namespace")
    };
    let item = stuck.items.iter().find(|item| item.name == "web");
    let root = item.and_then(|item| item.root.as_ref());
    assert_eq!(root.map(|root| root.code), Some(Code::UsedByOtherPod));
}

/// The node of the other pod is the last object that is read.
#[tokio::test]
async fn the_lost_node_that_has_the_volume_is_found_within_the_limit_of_calls() {
    let answer = shop()
        .claim(claim("more", "more"))
        .with(ATTACHMENTS, attachment("n1", true))
        .with("/api/v1/nodes", node("n1", "Unknown"))
        .volume(volume(json!(["ReadWriteOnce"])))
        .pod(creating(&["data", "more"], "False"))
        .pod(old("Running"));
    let answer = answer.explained(&web()).await;
    assert_eq!(answer.root().map(|root| root.code), Some(Code::NodeLost));
    assert_eq!(answer.unread, [""; 0]);
    assert!(answer.calls <= 10, "{}", answer.calls);
}

/// The attach-detach controller reports that another node has a volume only once. A later Event of
/// the kubelet may be about a failure that was solved.
#[tokio::test]
async fn a_later_event_does_not_hide_that_another_node_has_the_volume() {
    let cluster = attached_to_n1()
        .volume(volume(json!(["ReadWriteOnce"])))
        .pod(creating(&["data"], "False"))
        .pod(old("Running"))
        .with(EVENTS, event("FailedAttachVolume", "p2", 50))
        .with(EVENTS, event("FailedMount", "p2", 51));
    let answer = cluster.explained(&web()).await;
    let blocked = [Code::NotMounted, Code::Attached, Code::UsedByOtherPod];
    assert_eq!(codes(&answer), blocked);
    let first = &answer.chain[0].sentence;
    assert!(!first.contains("said"), "{first}");
}

/// It is then not known whether another node has the volume.
#[tokio::test]
async fn a_pod_whose_attachments_are_not_known() {
    for resource in ["volumeattachments", "persistentvolumes"] {
        let cluster = attached_to_n1().pod(creating(&["data"], "False"));
        let answer = cluster.without(resource).explained(&web()).await;
        assert_eq!(codes(&answer), [], "{resource}");
        assert_eq!(answer.unread.len(), 1, "{:?}", answer.unread);
    }
}

pub(super) fn event(reason: &str, uid: &str, minute: u32) -> Value {
    json!({
        "metadata": {"name": format!("{reason}-{minute}"), "namespace": "shop"},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web", "uid": uid},
        "reason": reason, "message": "said", "lastTimestamp": format!("2026-01-01T00:{minute}:00Z"),
    })
}

/// The containers wait with the same reason until the images are pulled.
#[tokio::test]
async fn a_failure_that_was_solved_is_no_cause() {
    let (attach, mount) = ("FailedAttachVolume", "FailedMount");
    let attached = "SuccessfulAttachVolume";
    let (solved, present) = (Code::NoVolumeProblem, Code::NotMounted);
    for (events, sandbox, expected) in [
        (
            vec![(attach, 50), (attached, 51), ("Pulling", 59)],
            "",
            solved,
        ),
        (
            vec![(attach, 50), (attached, 51), ("FailedCreatePodSandBox", 59)],
            "",
            solved,
        ),
        (vec![(attach, 50), ("Pulling", 59)], "", solved),
        (vec![(attach, 50), (attached, 51)], "", solved),
        (vec![(attached, 50), (attach, 51)], "", present),
        (vec![(mount, 50), (attached, 51)], "", present),
        (vec![(mount, 50), ("Pulled", 50)], "", solved),
        (vec![(mount, 50), ("Scheduled", 51)], "", present),
        (vec![("Pulled", 50), (mount, 51)], "", present),
        (vec![("Pulled", 50), ("FailedMapVolume", 51)], "", present),
        (vec![(mount, 50)], "False", present),
        (vec![(mount, 50)], "True", solved),
    ] {
        let cluster = shop().pod(creating(&["data"], sandbox));
        let cluster = events.iter().fold(cluster, |cluster, (reason, minute)| {
            cluster.with(EVENTS, event(reason, "p2", *minute))
        });
        let answer = cluster.explained(&web()).await;
        assert_eq!(codes(&answer), [expected], "{events:?} {sandbox}");
    }
    let of_earlier_pod = shop()
        .pod(creating(&["data"], "False"))
        .with(EVENTS, event(mount, "p2", 50))
        .with(EVENTS, event("Pulling", "p0", 59));
    assert_eq!(codes(&of_earlier_pod.explained(&web()).await), [present]);
}

/// The kubelet writes in its Events about a static pod the uid that it has given the pod, and not
/// that of the pod in the API, which it creates as a copy.
#[tokio::test]
async fn the_events_of_a_static_pod_have_the_uid_of_the_kubelet() {
    let mut mirror = creating(&["data"], "False");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    let failed = event("FailedMount", "hash", 50);
    let cluster = shop().pod(mirror).with(EVENTS, failed);
    let answer = cluster.explained(&web()).await;
    assert_eq!(codes(&answer), [Code::NotMounted]);
}

/// A pod without a claim waits for no volume, also on a node that does not answer.
#[tokio::test]
async fn a_pod_without_a_claim_on_a_lost_node_has_no_volume_problem() {
    for (claims, expected, said) in [
        (
            &["data"][..],
            Code::NodeLost,
            "and the claim is kept for it.",
        ),
        (
            &[][..],
            Code::NoVolumeProblem,
            "whether the pod still runs.",
        ),
    ] {
        let cluster = Cluster::default()
            .claim(claim("data", "disk"))
            .with("/api/v1/nodes", node("n2", "Unknown"))
            .volume(volume(json!([])))
            .pod(creating(claims, "False"));
        let answer = cluster.explained(&web()).await;
        let root = answer.root().expect("a root");
        assert_eq!(root.code, expected);
        assert!(root.sentence.ends_with(said), "{}", root.sentence);
    }
}

/// The kubelet, which no longer answers, has not updated the conditions of the pod since.
#[tokio::test]
async fn a_running_pod_on_a_lost_node_has_no_volume_problem_of_its_own() {
    for (ready, expected) in [("Unknown", Code::NodeLost), ("True", Code::NoVolumeProblem)] {
        let conditions = json!([
            {"type": "PodReadyToStartContainers", "status": "True"},
            {"type": "Ready", "status": "False"},
        ]);
        let status = json!({"phase": "Running", "conditions": conditions});
        let cluster = Cluster::default()
            .claim(claim("data", "disk"))
            .with("/api/v1/nodes", node("n2", ready))
            .pod(pod("web", "p2", "n2", &["data"], status));
        let answer = cluster.explained(&web()).await;
        assert_eq!(codes(&answer), [expected], "{ready}");
    }
}

/// Another volume of the pod was attached later. The VolumeAttachment shows that this one is not.
#[tokio::test]
async fn a_volume_that_another_node_has_after_the_success_for_another_volume() {
    let cluster = attached_to_n1()
        .pod(creating(&["data"], "False"))
        .with(EVENTS, event("FailedAttachVolume", "p2", 50))
        .with(EVENTS, event("SuccessfulAttachVolume", "p2", 51));
    let answer = cluster.explained(&web()).await;
    assert_eq!(codes(&answer), [Code::NotMounted, Code::Attached]);
}

/// The cluster with the pod `web`, whose uid is p2, and the claim of its ephemeral volume.
fn ephemeral(changes: &Value, node: Option<&str>) -> Cluster {
    let mut claim = claim("web-scratch", "disk");
    json_patch::merge(&mut claim["metadata"], changes);
    let scratch = json!({"name": "scratch", "ephemeral": {}});
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "p2"}, "status": {"phase": "Pending"},
        "spec": {"nodeName": node, "containers": [], "volumes": [scratch]},
    });
    let disk = volume(json!(["ReadWriteOnce"]));
    Cluster::default().claim(claim).volume(disk).pod(pod)
}

/// The scheduler and the kubelet refuse such a claim, also if it is bound.
#[tokio::test]
async fn an_ephemeral_volume_whose_claim_was_not_created_for_the_pod() {
    let owner = |uid: &str, controller: bool| {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": controller});
        json!({"ownerReferences": [owner]})
    };
    for (changes, expected) in [
        (json!({}), Code::ClaimNotOwned),
        (owner("p1", true), Code::ClaimNotOwned),
        (owner("p2", false), Code::ClaimNotOwned),
        (owner("p2", true), Code::NoVolumeProblem),
    ] {
        let answer = ephemeral(&changes, None).explained(&web()).await;
        assert_eq!(codes(&answer), [expected], "{changes}");
        if expected == Code::ClaimNotOwned {
            assert_eq!(
                command(&answer),
                "kubectl get pvc web-scratch -n shop -o yaml"
            );
        }
    }
    let mut deleting = owner("p1", true);
    deleting["deletionTimestamp"] = json!("2026-01-01T00:10:00Z");
    deleting["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    let answer = ephemeral(&deleting, Some("n2")).explained(&web()).await;
    assert_eq!(codes(&answer)[0], Code::ClaimDeleting);
}
