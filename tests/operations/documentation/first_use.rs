//! The examples do what README says of them.

use crate::support::{BINARY, installed, repository, webhooks_answer};
use anyhow::{Result, ensure};
use std::fs;
use volume_warden_controlplane::{Cluster, Warden, eventually};

#[tokio::test]
async fn the_examples_do_what_the_readme_says() -> Result<()> {
    let cluster = installed("examples", "manifests").await?;
    let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    webhooks_answer(&cluster.client()).await?;
    for example in fs::read_dir(repository().join("examples"))?.flatten() {
        let path = example.path().display().to_string();
        if path.ends_with(".yaml") {
            let apply = ["apply", "--dry-run=server", "-f", &path];
            ensure!(cluster.kubectl(&apply).await?.contains("(server dry run)"));
        }
    }
    claims_exist_when_the_pod_is_created(&cluster).await?;
    the_deletion_of_a_bound_volume_warns(&cluster).await?;
    a_deleted_claim_leaves_its_volume_available(&cluster).await?;
    drop(warden);
    cluster.stop().await;
    Ok(())
}

async fn apply(cluster: &Cluster, component: &str) -> Result<()> {
    let path = repository().join(format!("examples/{component}.yaml"));
    let path = path.display().to_string();
    cluster.kubectl(&["apply", "-f", &path]).await.map(drop)
}

async fn claims_exist_when_the_pod_is_created(cluster: &Cluster) -> Result<()> {
    apply(cluster, "pvc-provisioner").await?;
    cluster.kubectl(&["get", "pvc", "cache-7f3a"]).await?;
    cluster.kubectl(&["delete", "pod", "build-7f3a"]).await?;
    is_gone(cluster, "pvc/cache-7f3a").await
}

async fn the_deletion_of_a_bound_volume_warns(cluster: &Cluster) -> Result<()> {
    apply(cluster, "pv-protection").await?;
    let phase = ["get", "pv", "archive", "-o=jsonpath={.status.phase}"];
    eventually("the volume is bound", async || {
        let phase = cluster.kubectl(&phase).await?;
        ensure!(phase == "Bound", "{phase}");
        Ok(())
    })
    .await?;
    let delete = ["delete", "pv", "archive", "--wait=false"];
    let warnings = cluster.kubectl_warnings(&delete).await?;
    ensure!(warnings.concat().contains("archive"), "{warnings:?}");
    cluster.kubectl(&["get", "pv", "archive"]).await?;
    cluster.kubectl(&["delete", "pvc", "archive"]).await?;
    is_gone(cluster, "pv/archive").await
}

async fn a_deleted_claim_leaves_its_volume_available(cluster: &Cluster) -> Result<()> {
    apply(cluster, "pv-releaser").await?;
    let phase = async |phase: &str| {
        let volume = ["get", "pv", "cache-1", "-o=jsonpath={.status.phase}"];
        eventually("the volume has the phase", async || {
            let found = cluster.kubectl(&volume).await?;
            ensure!(found == phase, "{found}");
            Ok(())
        })
        .await
    };
    phase("Bound").await?;
    cluster.kubectl(&["delete", "pvc", "cache"]).await?;
    phase("Available").await
}

async fn is_gone(cluster: &Cluster, object: &str) -> Result<()> {
    eventually("the object is gone", async || {
        let found = cluster
            .kubectl(&["get", "--ignore-not-found", object])
            .await?;
        ensure!(found.is_empty(), "{found}");
        Ok(())
    })
    .await
}
