//! The other controllers of the cluster, each with a cache that may be stale.

mod attacher;
mod binder;
mod claim_owners;
mod garbage_collector;
mod kubelet;
mod namespaces;
mod scheduler;
mod stateful_sets;

use crate::{
    cluster::Cluster,
    connection::Connection,
    network::Wire,
    random::generator,
    view::{Log, View},
};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use volume_warden_apiserver_model::User;

/// One request of a controller.
#[derive(Clone, Debug)]
pub struct Call {
    method: &'static str,
    path: String,
    body: Value,
}

impl Call {
    /// Creates an object in the collection at this path.
    pub fn create(collection: impl Into<String>, object: Value) -> Self {
        Self {
            method: "POST",
            path: collection.into(),
            body: object,
        }
    }

    /// Replaces an object. The request fails unless `object` has the current resourceVersion.
    pub fn replace(path: impl Into<String>, object: Value) -> Self {
        Self {
            method: "PUT",
            path: path.into(),
            body: object,
        }
    }

    /// Applies a merge patch.
    pub fn merge(path: impl Into<String>, patch: Value) -> Self {
        Self {
            method: "PATCH",
            path: path.into(),
            body: patch,
        }
    }

    /// Deletes the object if it has this uid.
    pub fn delete(path: impl Into<String>, uid: &str) -> Self {
        Self::delete_with(path, json!({"preconditions": {"uid": uid}}))
    }

    /// Deletes the object with these options.
    pub fn delete_with(path: impl Into<String>, options: Value) -> Self {
        Self {
            method: "DELETE",
            path: path.into(),
            body: options,
        }
    }

    fn request(self) -> Option<Request<Bytes>> {
        let kind = match self.method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder().method(self.method).uri(self.path);
        request
            .header("content-type", kind)
            .body(serde_json::to_vec(&self.body).ok()?.into())
            .ok()
    }
}

/// A simulated controller: what it watches, and which requests it sends.
pub trait Controller: Send + 'static {
    /// The name of the controller in the printed transcript.
    const NAME: &'static str;
    /// The user as which the API server sees it.
    const USER: &'static str;
    /// The plurals of the kinds that it watches.
    const KINDS: &'static [&'static str];

    /// Returns the requests to send at this virtual millisecond. `view` is the cache of the
    /// controller; `live` is the present state, for controllers that read before they write.
    fn act(&mut self, view: &View, live: &Cluster, now: u64) -> Vec<Call>;

    /// Returns whether the controller must run again soon even if no object changes.
    fn waits(&self) -> bool {
        false
    }
}

/// Starts all controllers.
pub fn start(cluster: &Arc<Cluster>, log: &Arc<Log>) {
    run(scheduler::Scheduler, cluster, log);
    run(kubelet::Kubelet::default(), cluster, log);
    run(binder::Binder, cluster, log);
    let writes_owners = cluster
        .checks
        .with_ledger(|ledger| ledger.plan.in_tree_owners);
    run(stateful_sets::StatefulSets { writes_owners }, cluster, log);
    run(garbage_collector::GarbageCollector, cluster, log);
    run(attacher::Attacher::default(), cluster, log);
    run(namespaces::Namespaces, cluster, log);
}

/// Sends one request as this user, and waits for the answer.
pub async fn send(wire: &Wire, call: Call) {
    if let Some(request) = call.request() {
        // The answer is ignored: controllers react to their watches, and users do not react.
        let _ = wire.send(request).await;
    }
}

/// The connection to the API server of a client that is not Volume Warden.
pub fn wire(cluster: &Arc<Cluster>, client: &str, user: &str) -> Wire {
    let service_account = user.starts_with("system:serviceaccount:kube-system:");
    let groups: &[&str] = if service_account {
        &[
            "system:serviceaccounts",
            "system:serviceaccounts:kube-system",
        ]
    } else {
        &["system:authenticated"]
    };
    Wire {
        cluster: cluster.clone(),
        user: Arc::new(User {
            name: user.into(),
            groups: groups.iter().map(|&group| group.into()).collect(),
        }),
        client: client.into(),
        connection: Arc::new(Connection::default()),
    }
}

/// Pause, in milliseconds, before a controller runs again because of unfinished work.
const RETRY: u64 = 1_000;

fn run<C: Controller>(mut controller: C, cluster: &Arc<Cluster>, log: &Arc<Log>) {
    let (cluster, log) = (cluster.clone(), log.clone());
    tokio::spawn(async move {
        let wire = wire(&cluster, C::NAME, C::USER);
        let (mut view, mut changes) = (View::default(), log.length());
        for round in 0_u64.. {
            let mut random = generator(cluster.seed, (C::NAME, round));
            let fresh = cluster.schedule.now() >= cluster.faults.end || random.u32(0..4) > 0;
            let lag = if fresh { 0 } else { random.u64(1..2_000) };
            cluster
                .schedule
                .turn(random.u64(1..60), random.u64(..))
                .await;
            let now = cluster.schedule.now();
            if let Some(left) = cluster.faults.absent_for(C::NAME, now) {
                cluster.schedule.turn(left, random.u64(..)).await;
            }
            changes.mark_unchanged();
            let now = cluster.schedule.now();
            let behind = view.advance(&log, now.saturating_sub(lag));
            let calls = controller.act(&view, &cluster, now);
            let busy = behind || !calls.is_empty() || controller.waits();
            for call in calls {
                // A failed call is repeated in a later round.
                send(&wire, call).await;
            }
            let change = async {
                // `changed` fails only after the end of the history, when the log is dropped.
                while changes.changed().await.is_ok() && !view.misses(&log, C::KINDS) {}
            };
            if busy {
                drop(tokio::time::timeout(Duration::from_millis(RETRY), change).await)
            } else {
                change.await
            }
        }
    });
}
