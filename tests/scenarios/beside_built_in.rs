//! The default installation: Kubernetes' own protection of claims and volumes stays enabled beside
//! Volume Warden. Both write the same finalizers.

use crate::support::{
    BINARY, Running, Space, claim, manifests, repository, volume,
    webhook_timeouts::raise_webhook_timeouts, webhooks_answer,
};
use anyhow::{Result, ensure};
use kube::api::PostParams;
use serde_json::json;
use std::sync::Arc;
use volume_warden_controlplane::{Cluster, Warden, eventually};

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

async fn space() -> Result<Space> {
    let cluster = Cluster::in_tree().name("beside").start().await?;
    manifests::apply(&cluster, &repository().join("manifests")).await?;
    raise_webhook_timeouts(&cluster, None).await?;
    let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    webhooks_answer(&cluster.client()).await?;
    Space::new(Arc::new(Running::with(cluster, warden)), "beside").await
}

/// Creates a claim that is bound to the volume of this name.
async fn create_bound(space: &Space, name: &str, volume_name: &str) -> Result<()> {
    let class = json!({"spec": {"storageClassName": space.name}});
    let volume = volume(volume_name, class.clone())?;
    space
        .volumes
        .create(&PostParams::default(), &volume)
        .await?;
    let mut bound = class;
    bound["spec"]["volumeName"] = json!(volume_name);
    let claim = claim(name, bound)?;
    space.claims.create(&PostParams::default(), &claim).await?;
    eventually("the claim is bound", async || {
        let status = space.claims.get(name).await?.status;
        let phase = status.and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Bound"), "{phase:?}");
        anyhow::Ok(())
    })
    .await
}

async fn volume_is_gone(space: &Space, volume: &str) -> Result<()> {
    eventually("the volume is deleted", async || {
        anyhow::Ok(space.volumes.get_opt(volume).await?.is_none())
    })
    .await
}

#[tokio::test]
async fn both_protect_the_same_claims_and_volumes() -> Result<()> {
    let space = space().await?;
    for round in ["a", "b"] {
        let volume = format!("{}-{round}", space.name);
        create_bound(&space, "data", &volume).await?;
        space.create_running_pod(round, "data").await?;
        ensure!(space.finalizers("data").await? == [CLAIM_PROTECTION]);
        let finalizers = space.volumes.get(&volume).await?.metadata.finalizers;
        let own = finalizers.into_iter().flatten();
        ensure!(own.filter(|each| each == VOLUME_PROTECTION).count() == 1);

        space.volumes.delete(&volume, &Default::default()).await?;
        space.delete_claim("data").await?;
        space.claim_is_held("data").await?;
        ensure!(space.volumes.get_opt(&volume).await?.is_some(), "{volume}");

        space.delete_pod(round).await?;
        space.claim_is_gone("data").await?;
        volume_is_gone(&space, &volume).await?;
    }
    Ok(())
}
