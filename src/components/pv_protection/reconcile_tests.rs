//! Attempts after a failed one: rows of the table test in Kubernetes.

use super::*;
use crate::{
    cluster::{
        Elector, Reconciler,
        test_server::{answering, failure},
    },
    objects::finalizers::PV_PROTECTION,
};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

type Patches = Arc<Mutex<Vec<Value>>>;

/// A client of an API server that refuses the first two patches, and the patches that it got.
fn refusing_twice() -> (Client, Patches) {
    let patches = Patches::default();
    let log = patches.clone();
    let client = answering(move |head, patch| {
        // Events are patched as well.
        if head.uri.path().contains("/persistentvolumes/") {
            let mut patches = log.lock();
            patches.push(patch);
            if patches.len() <= 2 {
                return failure(403, "Forbidden");
            }
        }
        (200, json!({"metadata": {}}))
    });
    (client, patches)
}

/// The patches of the only volume, whose watch delivers none of them.
async fn patched(volume: Value) -> Vec<Value> {
    let (client, patches) = refusing_twice();
    let metrics = Arc::new(Metrics::new());
    let (lead, leadership) = Elector::for_test();
    lead.replace(Some(Instant::now() + Duration::from_secs(600)));
    let volume = serde_json::from_value(volume).expect("a volume");
    let apply = Apply::new(client, leadership.clone(), 1, false, metrics.clone());
    let reconcile = PvProtectionReconciler {
        volumes: Feed::filled(vec![volume]),
        apply: Arc::new(apply),
    };
    let stop = CancellationToken::new();
    let reconciler = Reconciler {
        reconcile: Arc::new(reconcile),
        queue: Arc::default(),
        leadership,
        again: Arc::default(),
        metrics,
    };
    let task = tokio::spawn(reconciler.run(stop.clone()));
    sleep(Duration::from_secs(300)).await;
    stop.cancel();
    task.await.expect("ends");
    let patches = patches.lock();
    patches.clone()
}

#[tokio::test(start_paused = true)]
async fn pv_03_and_05_a_refused_write_is_sent_until_it_is_accepted() {
    let deletion = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [PV_PROTECTION]}, "status": {"phase": "Released"}});
    for (row, changes, operation) in [
        ("PV-03 living, no finalizer", json!({}), "add"),
        ("PV-05 deleted, Released", deletion, "remove"),
    ] {
        let mut volume =
            json!({"metadata": {"name": "volume", "uid": "u", "resourceVersion": "1"}});
        json_patch::merge(&mut volume, &changes);
        let patches = patched(volume).await;
        assert_eq!(patches.len(), 3, "{row}: {patches:?}");
        assert!(patches.iter().all(|patch| *patch == patches[0]), "{row}");
        let operations = patches[0].as_array().expect("operations");
        let last = operations.last().and_then(|last| last["op"].as_str());
        assert_eq!(last, Some(operation), "{row}: {operations:?}");
    }
}
