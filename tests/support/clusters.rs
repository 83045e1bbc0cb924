//! The clusters that the scenarios share.

use super::{
    BINARY, claim, dry_run,
    kustomization::{Kustomization, NAMESPACE},
    manifests, repository,
    shared::{Running, Shared, Slot},
    webhook_timeouts,
};
use anyhow::Result;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, Client};
use serde_json::json;
use std::path::Path;
use tokio::sync::{Mutex, MutexGuard};
use volume_warden_controlplane::{Cluster, Warden, eventually};

/// A cluster with the manifests applied and no Volume Warden running: a scenario starts its own,
/// for its own namespace.
pub async fn bare() -> Result<Shared> {
    static BARE: Slot = Slot::for_several_modules();
    BARE.get(async || installed("bare", "manifests").await)
        .await
}

/// A cluster with the manifests applied and one Volume Warden that handles all namespaces. Its
/// webhooks have answered.
pub async fn guarded() -> Result<Shared> {
    static GUARDED: Slot = Slot::new();
    let start = async || {
        let cluster = installed("guarded", "manifests").await?;
        webhook_timeouts::raise_webhook_timeouts(&cluster, None).await?;
        let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
        webhooks_answer(&cluster.client()).await?;
        anyhow::Ok(Running::with(cluster, warden))
    };
    GUARDED.get(start).await
}

/// A cluster with the manifests applied, for one scenario at a time: the Volume Warden of such a
/// scenario handles all volumes, claims or namespaces of the cluster.
pub async fn quiet() -> Result<(Shared, MutexGuard<'static, ()>)> {
    static QUIET: Slot = Slot::for_several_modules();
    static ALONE: Mutex<()> = Mutex::const_new(());
    let cluster = QUIET.get(async || installed("quiet", "manifests").await);
    Ok((cluster.await?, ALONE.lock().await))
}

/// A cluster with the components that are off by default and with those that they need, and a
/// Volume Warden that handles all namespaces. Its webhooks have answered.
pub async fn optional() -> Result<Shared> {
    static OPTIONAL: Slot = Slot::new();
    OPTIONAL.get(start_optional).await
}

async fn start_optional() -> Result<Running> {
    let protection = [
        "self-signed",
        "pvc-protection",
        "pv-protection",
        "pvc-trash",
    ];
    let optional = ["restrict-service-account", "pvc-expiry", "trash-list"];
    let kustomization = Kustomization::of(&[&protection[..], &optional].concat(), NAMESPACE)?;
    let cluster = installed_from("optional", kustomization.path()).await?;
    webhook_timeouts::raise_webhook_timeouts(&cluster, None).await?;
    let warden = Warden::builder(&cluster, BINARY)
        .arg("--components=pvc-protection,pv-protection,pvc-trash,pvc-expiry,trash-list")
        .arg("--expiry-max-deletions=unlimited");
    let warden = warden.serving().start().await?;
    webhooks_answer(&cluster.client()).await?;
    Ok(Running::with(cluster, warden))
}

/// An unchanged Kubernetes cluster, for comparison.
pub async fn in_tree() -> Result<Shared> {
    static IN_TREE: Slot = Slot::new();
    IN_TREE.get(async || Cluster::in_tree().start().await).await
}

/// A cluster with the built-in controllers disabled, and a kustomization of this repository
/// applied.
pub async fn installed(name: &str, kustomization: &str) -> Result<Cluster> {
    installed_from(name, &repository().join(kustomization)).await
}

/// As [`installed`], with the kustomization in any directory.
pub async fn installed_from(name: &str, kustomization: &Path) -> Result<Cluster> {
    let cluster = Cluster::without_in_tree().name(name).start().await?;
    manifests::apply(&cluster, kustomization).await?;
    Ok(cluster)
}

/// Waits until the API server calls the webhooks and trusts their CA.
pub async fn webhooks_answer(client: &Client) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    eventually("the claim webhook answers", async || {
        let created = claims
            .create(&dry_run(), &claim("probe", json!({}))?)
            .await?;
        anyhow::Ok(created.metadata.finalizers.is_some())
    })
    .await
}
