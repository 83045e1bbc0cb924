#[path = "writes_tests.rs"]
mod writes;

use super::*;
use crate::cluster::{
    Elector, Feed, Feeds, Lane, Leadership,
    test_server::{answering, failure, silent},
};
use crate::components::pvc_retention::rule::{MarkerChange, Update};
use crate::hashing::HashSet;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// A reconciler with the StatefulSet `web` and its claim, whose queue is open. The API server does
/// not answer.
fn scene() -> (PvcRetentionReconciler, Arc<WorkQueue<Subject>>) {
    let metrics = Arc::new(Metrics::new());
    let (_, leadership) = Elector::for_test();
    let feeds = Feeds {
        sets: Feed::filled(vec![read(set())]),
        claims: Feed::filled(vec![read(claim("1"))]),
        ..Feeds::new(&metrics)
    };
    let reconciler = reconciler(&feeds, silent(), leadership, metrics);
    let queue = Arc::new(WorkQueue::default());
    queue.open();
    reconciler.listen(&queue);
    (reconciler, queue)
}

fn reconciler(
    feeds: &Feeds,
    client: Client,
    leadership: Leadership,
    metrics: Arc<Metrics>,
) -> PvcRetentionReconciler {
    PvcRetentionReconciler {
        caches: Caches::from(feeds),
        live_sets: LiveSets::new(&metrics, &client),
        live_rescues: LiveSets::new(&metrics, &client),
        live_pods: SharedList::new(metrics.clone(), &client),
        apply: Arc::new(Apply::new(client, leadership, 1, false, metrics)),
        events: Arc::default(),
        blocking: Mutex::default(),
    }
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("readable")
}

fn set() -> Value {
    let templates = json!([{"metadata": {"name": "data"}}]);
    json!({"metadata": {"namespace": "ns", "name": "web", "uid": "s"}, "spec": {"replicas": 1, "volumeClaimTemplates": templates}})
}

fn claim(version: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": "data-web-0", "uid": "c", "resourceVersion": version}})
}

async fn next(queue: &WorkQueue<Subject>) -> Option<Subject> {
    timeout(Duration::from_millis(1), queue.take()).await.ok()
}

/// The API server refuses a patch if the claim has changed. The delivery of that change has to wake
/// the set, although it may have no part in the decision.
#[tokio::test(start_paused = true)]
async fn a_change_of_its_claim_ends_the_backoff_of_a_set() {
    let (reconciler, queue) = scene();
    let web = ObjectName::new("ns", "web");
    let claims = &reconciler.caches.claims;
    claims.deliver(read(claim("2")), true);
    assert_eq!(next(&queue).await, None, "nothing had failed");
    queue.add(Subject::Policy(web.clone()));
    let begun = Instant::now();
    let key = next(&queue).await.expect("queued");
    queue.failed(&key, Duration::from_secs(300));
    assert_eq!(next(&queue).await, None, "it waits");
    claims.deliver(read(claim("3")), true);
    assert_eq!(next(&queue).await, Some(Subject::Policy(web)));
    assert!(begun.elapsed() < Duration::from_secs(1));
}

/// The claims of `c` are named `a-b-c-<ordinal>`, and so are those of `b-c`. The claim got its
/// owner when `c` was scaled down; now a pod of `b-c` mounts it too.
#[tokio::test]
async fn a_claim_that_another_set_uses_too_is_not_left_to_the_deletion_of_a_pod() {
    let uses = |set: &str, node: &str| {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set, "uid": set, "controller": true});
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "a-b-c-0"}});
        json!({"metadata": {"namespace": "ns", "name": format!("{set}-0"), "uid": format!("{set}-0"), "ownerReferences": [owner]},
            "spec": {"nodeName": node, "volumes": [volume]}})
    };
    let makes = |set: &str, template: &str| {
        let policy = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
        json!({"metadata": {"namespace": "ns", "name": set, "uid": set}, "spec": {"replicas": 0,
            "persistentVolumeClaimRetentionPolicy": policy, "volumeClaimTemplates": [{"metadata": {"name": template}}]}})
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "c-0", "uid": "c-0", "controller": true, "blockOwnerDeletion": true});
    let mut claim = json!({"metadata": {"namespace": "ns", "name": "a-b-c-0", "uid": "u", "resourceVersion": "1",
        "annotations": {"volume-warden.dev/scaled-with": "c"}, "ownerReferences": [pod]}});
    let rescued = |claim: &Value, pods: Vec<Value>| {
        let caches = Caches {
            sets: Feed::filled(vec![read(makes("c", "a-b")), read(makes("b-c", "a"))]),
            claims: Feed::filled(vec![read(claim.clone())]),
            pods: Feed::filled(pods.into_iter().map(read).collect()),
        };
        let (reconciler, _) = scene();
        let reconciler = PvcRetentionReconciler {
            caches,
            ..reconciler
        };
        let judged = reconciler.judge_cached(&ObjectName::new("ns", "c"));
        let judged = judged.expect("c is managed");
        let verdicts = judged.rescues().map(|(_, verdict)| verdict.step.clone());
        verdicts.collect::<Vec<_>>()
    };
    let (own, other) = (uses("c", "n"), uses("b-c", "n"));
    let removed = vec![Step::Update(Update {
        owners: Vec::new(),
        mark: MarkerChange::Remove,
    })];
    let both = || vec![own.clone(), other.clone()];
    assert_eq!(rescued(&claim, vec![own.clone()]), [], "only c uses it");
    assert_eq!(rescued(&claim, both()), removed);
    assert_eq!(rescued(&claim, vec![other.clone()]), []);
    claim["metadata"]["ownerReferences"][0] = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "c", "uid": "c", "controller": true});
    assert_eq!(rescued(&claim, vec![other.clone()]), removed);
    claim["metadata"]["ownerReferences"] = json!([]);
    claim["metadata"]["annotations"] = json!({});
    assert_eq!(rescued(&claim, both()), []);
}

/// A set that is deleted while another replica leads is never reconciled here.
#[tokio::test]
async fn events_of_sets_that_no_longer_exist_are_forgotten() {
    let (reconciler, _) = scene();
    let new_causes = |set: &str| {
        let causes = HashSet::from_iter([(Arc::from("data-web-0"), "Reason")]);
        let name = ObjectName::new("ns", set);
        !reconciler.events.new_causes(&name, "s", causes).is_empty()
    };
    assert!(new_causes("web") && new_causes("gone"));
    assert!(!new_causes("web") && !new_causes("gone"));
    assert_eq!(reconciler.candidates().len(), 2);
    assert!(!new_causes("web"), "it exists");
    assert!(new_causes("gone"));
}

/// If a user deletes a claim and its pod, the claim is mostly deleted within a second after the pod.
#[tokio::test(start_paused = true)]
async fn a_claim_that_blocks_its_pod_is_reported_after_ten_seconds() {
    let name = ObjectName::new("ns", "web");
    let mut set = set();
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": "Retain", "whenDeleted": "Retain"});
    let mut deleted = claim("1");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let caches = Caches {
        sets: Feed::filled(vec![read(set)]),
        claims: Feed::filled(vec![read(deleted)]),
        pods: Feed::filled(vec![]),
    };
    let (reconciler, _) = scene();
    let reconciler = PvcRetentionReconciler {
        caches,
        ..reconciler
    };
    let publish = || {
        let judged = reconciler.judge_cached(&name).expect("it is managed");
        reconciler.publish(&name, &judged)
    };
    let reported = || {
        let causes = HashSet::from_iter([(Arc::from("data-web-0"), "PodBlockedByClaim")]);
        let events = &reconciler.events;
        events.new_causes(&name, "s", causes).is_empty()
    };
    assert_eq!(publish(), Some(BLOCKED_AFTER));
    tokio::time::sleep(BLOCKED_AFTER).await;
    assert_eq!(publish(), None);
    assert!(reported());
    reconciler.blocking.lock().clear();
    reconciler.events.forget(&name);
    assert_eq!(publish(), Some(BLOCKED_AFTER), "it begins again");
    assert!(!reported());
}
