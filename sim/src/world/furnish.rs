//! The objects in a cluster with Volume Warden before its history begins.

use crate::{
    cluster::{Cluster, EPOCH, wall_clock},
    json::name,
    manifests,
    plan::Plan,
    schedule::Schedule,
    view::Log,
};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use time::OffsetDateTime;
use volume_warden::objects::{
    expiry::EXPIRE_UNUSED, rebind::REBIND, undelete_window::UNDELETE_WINDOW,
};
use volume_warden_apiserver_model::{ApiServer, Change, Settings, User, Version};

/// The annotations of the class whose volumes have the policy Delete.
type Class = Vec<(&'static str, &'static str)>;

/// Returns the API server of a cluster with Volume Warden.
///
/// # Errors
/// When the simulation itself fails.
pub(super) async fn server(plan: &Plan, schedule: &Arc<Schedule>) -> anyhow::Result<ApiServer> {
    let clock = wall_clock(schedule, 0);
    let server = empty(plan.seed, plan.longest_page, Arc::new(move || clock.now()));
    server.copy(&furnished(class(plan)).await?);
    Ok(server)
}

type Clock = Arc<dyn Fn() -> OffsetDateTime + Send + Sync>;

fn empty(seed: u64, longest_page: usize, clock: Clock) -> ApiServer {
    ApiServer::new(Settings {
        version: Version::V1_34,
        seed,
        clock,
        longest_page,
        in_tree_protection: false,
    })
}

fn class(plan: &Plan) -> Class {
    let Some(window) = plan.undelete_window() else {
        return Vec::new();
    };
    vec![
        (UNDELETE_WINDOW, window),
        (EXPIRE_UNUSED, plan.expire_unused().unwrap_or("off")),
        (REBIND, if plan.rebinds() { "same-name" } else { "off" }),
    ]
}

/// Returns a server with the objects of a cluster with such a class. It is created once for all
/// histories: creating it takes a twentieth of the time of a history.
async fn furnished(class: Class) -> anyhow::Result<ApiServer> {
    static FURNISHED: Mutex<BTreeMap<Class, ApiServer>> = Mutex::new(BTreeMap::new());
    let lock = || FURNISHED.lock();
    let known = lock().get(&class).cloned();
    if let Some(known) = known {
        return Ok(known);
    }
    let server = empty(0, 0, Arc::new(|| EPOCH));
    furnish(&server, &class).await?;
    lock().insert(class, server.clone());
    Ok(server)
}

async fn furnish(server: &ApiServer, class: &Class) -> anyhow::Result<()> {
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    for name in ["default", "ns", "other", "volume-warden", "kube-system"] {
        create(server, "/api/v1/namespaces", &namespace(name)).await?;
    }
    for name in ["delete", "retain"] {
        let policy = if name == "retain" { "Retain" } else { "Delete" };
        let annotations: BTreeMap<_, _> = match policy {
            "Delete" => class.iter().copied().collect(),
            _ => BTreeMap::new(),
        };
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": name, "annotations": annotations},
            "provisioner": "sim", "reclaimPolicy": policy, "volumeBindingMode": "Immediate",
        });
        create(server, "/apis/storage.k8s.io/v1/storageclasses", &class).await?;
    }
    for (path, configuration) in manifests::webhook_configurations()? {
        send(server, path, configuration.clone()).await?;
    }
    Ok(())
}

async fn create(server: &ApiServer, path: &str, object: &Value) -> anyhow::Result<()> {
    send(server, path, serde_json::to_vec(object)?.into()).await
}

async fn send(server: &ApiServer, path: &str, object: Bytes) -> anyhow::Result<()> {
    let administrator = User {
        name: "admin".into(),
        groups: vec!["system:masters".into()],
    };
    let request = http::Request::post(path).header("content-type", "application/json");
    let response = server
        .handle(&administrator, request.body(object.clone())?)
        .await;
    anyhow::ensure!(
        response.status().is_success(),
        "{} for {}",
        response.status(),
        String::from_utf8_lossy(&object)
    );
    Ok(())
}

/// Passes each change to the invariants and to the other controllers.
pub(super) fn observe(cluster: &Arc<Cluster>, log: &Arc<Log>) {
    let (schedule, checks, log) = (
        cluster.schedule.clone(),
        cluster.checks.clone(),
        log.clone(),
    );
    // The namespaces were created before the server had an observer.
    for namespace in cluster.server.list("namespaces", None) {
        checks.changed(0, &created(namespace));
    }
    cluster.server.observe(Box::new(move |change| {
        let now = schedule.now();
        log.add(now, change);
        checks.changed(now, change);
    }));
}

/// The creation of a namespace.
fn created(namespace: Arc<Value>) -> Change {
    Change {
        revision: 0,
        plural: "namespaces",
        namespace: String::new(),
        name: name(&namespace).to_owned(),
        before: None,
        after: Some(namespace),
        user: "admin".into(),
    }
}
