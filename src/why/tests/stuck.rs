//! Tests of the list of everything that is stuck.

use super::*;
use crate::{
    cluster::test_server::answering_each_after,
    why::{
        Selection, Stuck, Survey, Which,
        read::{PersistentVolume, PersistentVolumeClaim},
        survey,
    },
};
use k8s_openapi::api::core::v1::Event;
use std::time::Duration;
use tokio::time::Instant;

const DELETED: &str = "2026-01-01T00:10:00Z";

pub(super) fn which(namespace: Option<&str>) -> Which {
    Which {
        namespace: namespace.map(str::to_owned),
        min_age: Duration::from_secs(60),
    }
}

pub(super) async fn found(cluster: Cluster, which: &Which) -> Stuck {
    let now: Timestamp = NOW.parse().expect("a time");
    match survey(cluster.client(), which, now).await {
        Survey::Found(stuck) => stuck,
        Survey::NoNamespace => panic!("there is the namespace"),
    }
}

/// Each object with its root cause.
pub(super) fn lines(stuck: &Stuck) -> Vec<String> {
    let lines = stuck.items.iter().map(|item| {
        let root = item.root.as_ref().map_or("-", |root| root.code.name());
        format!("{} {}: {root}", item.namespace, item.object)
    });
    lines.collect()
}

fn claim(name: &str, spec: Value, status: Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "creationTimestamp": DELETED,
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": spec, "status": status,
    })
}

fn deleted(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = json!(DELETED);
    object
}

fn bound(name: &str) -> Value {
    claim(name, json!({"volumeName": name}), json!({"phase": "Bound"}))
}

fn volume(name: &str, namespace: &str, phase: &str) -> Value {
    json!({
        "metadata": {"name": name, "creationTimestamp": DELETED},
        "spec": {
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": name, "uid": name},
        },
        "status": {"phase": phase},
    })
}

fn pod(name: &str, claim: &str, status: Value) -> Value {
    let data = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": DELETED},
        "spec": {"nodeName": "node", "containers": [], "volumes": [data]},
        "status": status,
    })
}

pub(super) fn set() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "web", "creationTimestamp": DELETED},
        "spec": {
            "replicas": 1, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {}}, "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        },
        "status": {"replicas": 0},
    })
}

fn shop() -> Cluster {
    let namespace = |name: &str| json!({"metadata": {"name": name}});
    let late = json!({
        "metadata": {"name": "late"}, "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let pending = |name: &str, class: &str| {
        claim(
            name,
            json!({"storageClassName": class}),
            json!({"phase": "Pending"}),
        )
    };
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    Cluster::default()
        .with("/api/v1/namespaces", namespace("shop"))
        .with("/api/v1/namespaces", deleted(namespace("bank")))
        .with(
            "/api/v1/nodes",
            json!({"metadata": {"name": "node"}, "status": ready}),
        )
        .with("/apis/storage.k8s.io/v1/storageclasses", late)
        .claim(deleted(bound("used")))
        .claim(bound("fine"))
        .claim(pending("unused", "late"))
        .claim(pending("classless", "none"))
        .claim(deleted(claim(
            "data-web-0",
            json!({}),
            json!({"phase": "Pending"}),
        )))
        .volume(volume("used", "shop", "Bound"))
        .volume(volume("fine", "shop", "Bound"))
        .volume(volume("old", "shop", "Released"))
        .volume(volume("elsewhere", "bank", "Released"))
        .pod(pod("user", "used", json!({"phase": "Running"})))
        .pod(pod("lacking", "none", json!({"phase": "Pending"})))
        .pod(pod("pulling", "fine", json!({"phase": "Pending"})))
        .pod(deleted(pod("ending", "fine", json!({"phase": "Running"}))))
        .with("/apis/apps/v1/namespaces/shop/statefulsets", set())
}

/// A claim that waits for its first pod, and a pod whose claims are fine, are not stuck.
#[tokio::test]
async fn everything_that_is_stuck_has_one_line_with_its_root() {
    let stuck = found(shop(), &which(Some("shop"))).await;
    let expected = [
        "shop pvc/classless: ClassMissing",
        "shop pvc/data-web-0: OwnerNotRunning",
        "shop pvc/used: InUse",
        " pv/old: Retained",
        "shop pod/ending: PodTerminating",
        "shop pod/lacking: ClaimMissing",
        "shop statefulset/web: OwnerNotRunning",
    ];
    assert_eq!(lines(&stuck), expected);
    assert_eq!(stuck.unread, [""; 0]);
    let used = &stuck.items[2];
    assert_eq!(used.command, "volume-warden why pvc/used -n shop");
    assert_eq!(used.resource, "persistentvolumeclaim/used");
    assert_eq!(stuck.items[6].resource, "statefulset.apps/web");
    let all = found(shop(), &which(None)).await;
    let more = [
        " pv/elsewhere: Retained",
        " namespace/bank: NamespaceContent",
    ];
    for line in expected.iter().chain(&more) {
        assert!(
            lines(&all).contains(&(*line).to_owned()),
            "{line}: {:?}",
            lines(&all)
        );
    }
    assert_eq!(all.items.len(), expected.len() + more.len());
}

/// All objects of a kind are read at once, so many stuck objects cost no more calls than few.
#[tokio::test]
async fn the_calls_do_not_grow_with_the_objects() {
    let many = |count: usize| {
        let names = (0..count).map(|index| format!("claim-{index}"));
        names.fold(shop(), |cluster, name| {
            let user = pod(&format!("pod-{name}"), &name, json!({"phase": "Pending"}));
            let fine = format!("fine-{name}");
            cluster
                .claim(bound(&fine))
                .volume(volume(&fine, "shop", "Bound"))
                .claim(deleted(bound(&name)))
                .volume(volume(&name, "shop", "Bound"))
                .pod(user)
        })
    };
    for namespace in [Some("shop"), None] {
        let few = found(many(2), &which(namespace)).await;
        let more = found(many(200), &which(namespace)).await;
        assert_eq!(more.items.len() - few.items.len(), 198);
        assert_eq!((few.calls, &few.unread), (more.calls, &Vec::new()));
        assert!(few.calls <= 16, "{}", few.calls);
    }
}

#[tokio::test]
async fn what_has_just_begun_is_not_stuck() {
    let old = |minutes: u64| Which {
        min_age: Duration::from_secs(minutes * 60),
        ..which(Some("shop"))
    };
    assert_eq!(found(shop(), &old(50)).await.items.len(), 7);
    assert_eq!(found(shop(), &old(51)).await.items, []);
}

/// A claim is created long before it is enlarged.
#[tokio::test]
async fn a_claim_whose_resize_has_just_begun_is_not_stuck() {
    for (minute, expected) in [("58", 1), ("59", 0)] {
        let since = format!("2026-01-01T00:{minute}:30Z");
        let resizing = json!({"type": "Resizing", "status": "True", "lastTransitionTime": since});
        let status =
            json!({"phase": "Bound", "capacity": {"storage": "1Gi"}, "conditions": [resizing]});
        let spec = json!({"volumeName": "big", "resources": {"requests": {"storage": "2Gi"}}});
        let cluster = Cluster::default()
            .with("/api/v1/namespaces", json!({"metadata": {"name": "shop"}}))
            .claim(claim("big", spec, status))
            .volume(volume("big", "shop", "Bound"));
        let stuck = found(cluster, &which(Some("shop"))).await;
        assert_eq!(stuck.items.len(), expected, "{minute}: {:?}", lines(&stuck));
    }
}

/// What could not be read is reported, and is neither stuck nor fine.
#[tokio::test]
async fn nothing_is_concluded_from_what_may_not_be_read() {
    let stuck = found(shop().without("pods"), &which(Some("shop"))).await;
    assert_eq!(
        stuck.unread,
        ["pods in shop could not be read: not for you"]
    );
    let used = stuck.items.iter().find(|item| item.name == "used");
    assert_eq!(used.expect("it stays Terminating").root, None);
    assert!(
        !lines(&stuck)
            .iter()
            .any(|line| line.contains("statefulset"))
    );
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_reported() {
    let now: Timestamp = NOW.parse().expect("a time");
    let none = survey(shop().client(), &which(Some("none")), now).await;
    assert_eq!(none, Survey::NoNamespace);
}

/// An answer about the cluster lists the objects of a kind in all namespaces.
#[tokio::test]
async fn a_world_of_the_cluster_lists_all_namespaces() {
    let event = |namespace: &str| {
        let metadata = json!({"name": "e", "namespace": namespace});
        json!({"metadata": metadata, "involvedObject": {"kind": "Lease"}})
    };
    let cluster = ["a", "b"]
        .into_iter()
        .fold(Cluster::default(), |all, each| {
            all.with(&format!("/api/v1/namespaces/{each}/events"), event(each))
        });
    let mut reads = LiveReads::for_all(cluster.client(), NOW.parse().expect("a time"), false);
    let listed = |reads: &LiveReads, namespace: &str| {
        let events = reads.list::<Event>(namespace, Selection::default());
        events.found().map(|events| events.len())
    };
    assert_eq!(listed(&reads, ""), None);
    reads.read_requested().await;
    assert_eq!(
        ["", "a", "c"].map(|each| listed(&reads, each)),
        [Some(2), Some(1), Some(0)]
    );
}

/// The claim is bound to a volume that is created after the command has begun.
#[tokio::test(start_paused = true)]
async fn what_claims_name_is_listed_after_them() {
    let (began, late) = (Instant::now(), Duration::from_secs(1));
    let delay = move |head: &http::request::Parts| {
        let is_slow = head.uri.path().ends_with("/persistentvolumeclaims");
        if is_slow { late } else { Duration::ZERO }
    };
    let client = answering_each_after(delay, move |head, _| {
        let namespace = json!({"metadata": {"name": "shop"}});
        let cluster = Cluster::default().with("/api/v1/namespaces", namespace);
        let mut cluster = cluster.claim(bound("new"));
        if began.elapsed() >= late {
            cluster = cluster.volume(volume("new", "shop", "Bound"));
        }
        let (code, answer) = cluster.answer(&head.uri);
        (code, answer)
    });
    let now: Timestamp = NOW.parse().expect("a time");
    let Survey::Found(stuck) = survey(client, &which(Some("shop")), now).await else {
        panic!("there is the namespace");
    };
    assert_eq!(lines(&stuck), [""; 0]);
}

/// Between the two LISTs, the claim is deleted, and its volume with it.
#[tokio::test]
async fn a_claim_that_was_deleted_with_its_volume_is_not_stuck() {
    for (is_deleted, expected) in [
        (true, vec![]),
        (false, vec!["shop pvc/lost: VolumeMissing"]),
    ] {
        let client = answering(move |head, _| {
            let namespace = json!({"metadata": {"name": "shop"}});
            let cluster = Cluster::default().with("/api/v1/namespaces", namespace);
            if is_deleted && head.uri.path().ends_with("/persistentvolumeclaims/lost") {
                return cluster.answer(&head.uri);
            }
            cluster.claim(bound("lost")).answer(&head.uri)
        });
        let now: Timestamp = NOW.parse().expect("a time");
        let Survey::Found(stuck) = survey(client, &which(Some("shop")), now).await else {
            panic!("there is the namespace");
        };
        assert_eq!(lines(&stuck), expected);
    }
}

/// So many claims were not all deleted between the two LISTs.
#[tokio::test]
async fn many_claims_without_their_volume_are_not_read_again() {
    let client = answering(|head, _| {
        let path = head.uri.path();
        assert!(!path.contains("/persistentvolumeclaims/"), "{path}");
        let namespace = json!({"metadata": {"name": "shop"}});
        let cluster = Cluster::default().with("/api/v1/namespaces", namespace);
        let names = (0..11).map(|index| format!("lost-{index}"));
        names
            .fold(cluster, |cluster, name| cluster.claim(bound(&name)))
            .answer(&head.uri)
    });
    let now: Timestamp = NOW.parse().expect("a time");
    let Survey::Found(stuck) = survey(client, &which(Some("shop")), now).await else {
        panic!("there is the namespace");
    };
    assert_eq!(lines(&stuck).len(), 11);
}

/// A volume has no namespace, so the LIST of all volumes is that of the namespace, too.
#[tokio::test]
async fn volumes_are_listed_once_for_a_namespace() {
    let mut reads = LiveReads::for_all(shop().client(), NOW.parse().expect("a time"), true);
    for _ in 0..2 {
        let found = reads.get::<PersistentVolume>("", "fine").found();
        let all = reads.list::<PersistentVolume>("", Selection::default());
        assert_eq!(found.is_some(), all.found().is_some());
        let claims = reads.list::<PersistentVolumeClaim>("shop", Selection::default());
        let elsewhere = reads.list::<PersistentVolumeClaim>("", Selection::default());
        assert_eq!(claims.found().is_some(), elsewhere.found().is_some());
        reads.read_requested().await;
    }
    assert_eq!(reads.calls(), 3);
}
