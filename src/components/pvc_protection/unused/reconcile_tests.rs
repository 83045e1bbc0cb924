//! Tests of the live LIST of pods without which no claim becomes Unused.

use super::*;
use crate::{
    clock::Clock,
    cluster::{
        Elector,
        test_server::{answering, failure},
    },
    telemetry::Metrics,
};
use http::Method;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

/// The time of the API server.
const DATE: &str = "2026-01-01T09:00:00Z";

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("readable")
}

/// A Bound claim whose condition has this status; it has no condition if that is none.
fn claim(status: Option<&str>) -> Value {
    let condition = |status| json!({"type": "Unused", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions: Vec<_> = status.into_iter().map(condition).collect();
    json!({"metadata": {"namespace": "ns", "name": "data", "uid": "1", "resourceVersion": "7"},
        "status": {"phase": "Bound", "conditions": conditions}})
}

/// A pod that uses the claim.
fn pod() -> Value {
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "data"}});
    json!({"metadata": {"namespace": "ns", "name": "web", "uid": "p"},
        "spec": {"volumes": [volume]}, "status": {"phase": "Pending"}})
}

/// The answer to a LIST of these pods.
fn list(pods: &[Value]) -> (u16, Value) {
    let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": pods});
    (200, list)
}

/// Reconciles the claim while the watch shows no pod. During the LIST of pods, to which the API
/// server answers `listed`, the watch delivers the pod `delivered`. Returns the outcome, and the
/// status of the condition in each write.
async fn reconciled(
    condition: Option<&str>,
    listed: (u16, Value),
    delivered: Option<Value>,
) -> (Reconciled, Vec<Value>) {
    let pods: Arc<Feed<Pod>> = Feed::filled(vec![]);
    let writes = Arc::new(Mutex::new(Vec::new()));
    let (feed, sent) = (pods.clone(), writes.clone());
    let client = answering(move |head, body| {
        if head.method == Method::PATCH {
            let condition = &body["status"]["conditions"][0];
            assert_eq!(condition["lastTransitionTime"], DATE);
            sent.lock().push(condition["status"].clone());
            return (200, json!({"metadata": {}}));
        }
        if let Some(pod) = &delivered {
            feed.deliver(read(pod.clone()), true);
        }
        listed.clone()
    });
    let metrics = Arc::new(Metrics::new());
    let (lead, leadership) = Elector::for_test();
    lead.replace(Some(Instant::now() + Duration::from_secs(600)));
    // pvc-expiry counts from the written time, so it must not be too early.
    let behind = Clock::new(|| time::OffsetDateTime::UNIX_EPOCH);
    let reconciler = UnusedReconciler {
        claims: Feed::filled(vec![read(claim(condition))]),
        pods,
        live_pods: SharedList::new(metrics.clone(), &client),
        live_claims: LiveGet::new(metrics.clone(), &client),
        apply: Arc::new(Apply::new(client, leadership, 1, false, metrics)),
        time: LatestTime::after_answer(behind, DATE.parse().expect("a time")),
        mode: UnusedCondition::On,
        excluded: Excluded::default(),
        in_tree: Arc::default(),
    };
    let outcome = reconciler.reconcile(&ObjectName::new("ns", "data")).await;
    let writes = writes.lock().clone();
    (outcome, writes)
}

/// A cached pod is enough for False, but the watch may be late: True requires a LIST.
#[tokio::test(start_paused = true)]
async fn a_claim_is_unused_only_if_neither_the_list_nor_the_watch_shows_a_pod() {
    let refused = failure(403, "Forbidden");
    for (row, condition, listed, delivered, error, written) in [
        ("none", None, list(&[]), None, None, Some("True")),
        ("listed", None, list(&[pod()]), None, None, Some("False")),
        (
            "listed, and the condition says so",
            Some("False"),
            list(&[pod()]),
            None,
            Some("the watch has not delivered that pod yet"),
            None,
        ),
        (
            "created after the LIST",
            None,
            list(&[]),
            Some(pod()),
            None,
            None,
        ),
        (
            "unknown",
            None,
            refused,
            None,
            Some("pods could not be listed"),
            None,
        ),
    ] {
        let (outcome, writes) = reconciled(condition, listed, delivered).await;
        match (outcome, error) {
            (Ok(requeue), None) => assert_eq!(requeue, Requeue::OnEvent, "{row}"),
            (Err(found), Some(part)) => {
                assert!(found.to_string().contains(part), "{row}: {found}");
            }
            (outcome, _) => panic!("{row}: {outcome:?}"),
        }
        assert_eq!(writes, Vec::from_iter(written), "{row}");
    }
}
