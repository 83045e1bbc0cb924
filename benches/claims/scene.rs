//! The control plane of a part, and Volume Warden on it.

use crate::{
    pods::Space,
    stage::{QUIET, install},
};
use anyhow::Result;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use volume_warden_controlplane::{
    Cluster, ClusterBuilder, Component, Warden, WardenBuilder, eventually,
};

const WEBHOOK: &str = "pods.pvc-provisioner.volume-warden.dev";

/// A control plane without controllers that write to pods or claims: pods stay as they were
/// created.
pub fn still() -> ClusterBuilder {
    Cluster::without_in_tree()
        .nodes(1)
        .without_controllers(&QUIET)
}

/// Runs a part on its own control plane.
pub async fn on<T>(
    builder: ClusterBuilder,
    run: impl AsyncFnOnce(&Cluster) -> Result<T>,
) -> Result<T> {
    let cluster = builder.name("claims").start().await?;
    let outcome = run(&cluster).await;
    cluster.stop().await;
    outcome
}

/// Pauses the scheduler and KWOK, so that pods stay as they were created.
pub fn hold_pods(cluster: &Cluster) -> Result<()> {
    cluster.pause(Component::Scheduler)?;
    cluster.pause(Component::Kwok)
}

/// The release binary with all components.
pub fn warden(cluster: &Cluster) -> WardenBuilder<'_> {
    Warden::builder(cluster, env!("CARGO_BIN_EXE_volume-warden")).quiet()
}

/// Applies the manifests, starts Volume Warden, and waits until the API server calls its webhook.
pub async fn served(cluster: &Cluster) -> Result<Warden> {
    install(cluster).await?;
    let warden = warden(cluster).serving().start().await?;
    webhook_answers(cluster).await?;
    Ok(warden)
}

/// Deletes all webhook configurations.
pub async fn remove_webhooks(cluster: &Cluster) -> Result<()> {
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    cluster.kubectl(&["delete", kinds, "--all"]).await.map(drop)
}

/// Waits until the API server calls the webhook for pods and trusts its CA.
pub async fn webhook_answers(cluster: &Cluster) -> Result<()> {
    let client = cluster.client();
    let space = Space::of(&client, "default");
    let before = answered(&client).await?;
    eventually("the webhook for pods answers", async || {
        space.probe().await?;
        anyhow::Ok(answered(&client).await? > before)
    })
    .await
}

async fn answered(client: &Client) -> Result<u64> {
    let name = format!("name=\"{WEBHOOK}\"");
    let labels = ["code=\"200\"", &name];
    counted(client, "apiserver_admission_webhook_request_total", &labels).await
}

/// The number of webhook calls to Volume Warden that failed open.
pub async fn failed_open(client: &Client) -> Result<u64> {
    let labels = [".volume-warden.dev\""];
    counted(
        client,
        "apiserver_admission_webhook_fail_open_count",
        &labels,
    )
    .await
}

/// The sum of a counter of the API server, over the series that have these labels.
async fn counted(client: &Client, counter: &str, labels: &[&str]) -> Result<u64> {
    let request = http::Request::get("/metrics").body(vec![])?;
    let metrics = client.request_text(request).await?;
    let series = metrics.lines().filter(|line| {
        line.starts_with(counter) && labels.iter().all(|label| line.contains(label))
    });
    let values = series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(values.sum::<f64>() as u64)
}

/// Creates a namespace, and waits until pods can be created in it.
pub async fn space(cluster: &Cluster, name: &str) -> Result<Space> {
    let client = cluster.client();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    let namespaces = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    eventually("the namespace has its ServiceAccount", async || {
        accounts.get("default").await.map(drop)
    })
    .await?;
    Ok(Space::of(&client, name))
}
