//! What a cluster with Volume Warden has before the history begins.

use crate::{
    cluster::{Cluster, wall_clock},
    json::name,
    manifests,
    plan::Plan,
    schedule::Schedule,
    view::Log,
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden::objects::{
    expiry::EXPIRE_UNUSED, rebind::REBIND, undelete_window::UNDELETE_WINDOW,
};
use volume_warden_apiserver_model::{ApiServer, Change, Settings, User, Version};

pub(super) fn server(seed: u64, schedule: &Arc<Schedule>) -> ApiServer {
    let clock = wall_clock(schedule, 0);
    ApiServer::new(Settings {
        version: Version::V1_34,
        seed,
        clock: Arc::new(move || clock.now()),
        in_tree_protection: false,
    })
}

/// Creates what a cluster with Volume Warden has.
pub(super) async fn furnish(server: &ApiServer, plan: &Plan) -> anyhow::Result<()> {
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    for name in ["ns", "other", "volume-warden", "kube-system"] {
        create(server, "/api/v1/namespaces", &namespace(name)).await?;
    }
    for name in ["delete", "retain"] {
        let policy = if name == "retain" { "Retain" } else { "Delete" };
        let annotations = match plan.undelete_window() {
            Some(window) if name == "delete" => json!({
                UNDELETE_WINDOW: window,
                EXPIRE_UNUSED: plan.expire_unused().unwrap_or("off"),
                REBIND: if plan.rebinds() { "same-name" } else { "off" },
            }),
            _ => json!({}),
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

/// Lets the invariants and the other controllers see each change.
pub(super) fn observe(cluster: &Arc<Cluster>, log: &Arc<Log>) {
    let (schedule, checks, log) = (
        cluster.schedule.clone(),
        cluster.checks.clone(),
        log.clone(),
    );
    // They were created before anything observes the server.
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
