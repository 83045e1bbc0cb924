//! The upgrade from the chart of version 0.1.0, which is `volume-warden-0.1.0.tgz` here.

use super::cluster::Release;
use crate::{
    install::as_deployed,
    support::{kustomization::NAMESPACE, repository, webhooks_answer},
};
use anyhow::{Result, ensure};
use serde_json::json;
use volume_warden_controlplane::Cluster;

#[tokio::test]
async fn a_release_of_0_1_0_is_upgraded() -> Result<()> {
    let cluster = Cluster::without_in_tree().name("upgrade").start().await?;
    cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
    let old = repository().join("tests/operations/chart/volume-warden-0.1.0.tgz");
    let old = old.display().to_string();
    let release = Release::new(&cluster, &json!({})).await?;
    release.run(&["install", "volume-warden", &old]).await?;

    let with_old_values = Release::new(&cluster, &json!({"replicas": 1})).await?;
    let refused = with_old_values.put("upgrade", &[]).await;
    let refused = format!("{:?}", refused.err());
    ensure!(
        refused.contains("replicas is now replicaCount"),
        "{refused}"
    );

    // The Secret of the certificate was created by the program, and is part of the chart now.
    release.put("upgrade", &["--take-ownership"]).await?;
    let warden = as_deployed(&cluster, NAMESPACE).await?;
    webhooks_answer(&cluster.client()).await?;
    warden.stop().await?;
    // The published paths belong to Volume Warden, so the rollback has to take them over.
    let rollback = ["rollback", "volume-warden", "1", "--force-conflicts"];
    release.run(&rollback).await?;
    cluster.stop().await;
    Ok(())
}
