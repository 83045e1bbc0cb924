//! No client is there to be asked.

use super::ward::{SERVICE, Ward};
use crate::support::{repository, webhooks_answer};
use anyhow::Result;

#[tokio::test]
async fn dead() -> Result<()> {
    let ward = Ward::open("dead").await?;
    ward.kill()?;
    ward.nobody_notices().await?;
    let _successor = ward.successor().serving().start().await?;
    ward.recovers().await
}

/// Volume Warden is well and knows nothing of it: what admission misses is made good while it goes on.
#[tokio::test]
async fn its_service_has_no_endpoints() -> Result<()> {
    let ward = Ward::open("endpoints").await?;
    ward.cluster.webhooks().serve(SERVICE, vec![]);
    // Connections that are open already would go on to be used.
    ward.kill()?;
    let healthy = ward.successor().start().await?;
    ward.nobody_notices().await?;
    ward.users.are_whole().await?;
    let webhooks = ward.cluster.webhooks();
    webhooks.serve(SERVICE, vec![healthy.webhook_port()]);
    webhooks_answer(&ward.cluster.client()).await
}

#[tokio::test]
async fn its_service_is_deleted() -> Result<()> {
    let ward = Ward::open("service").await?;
    ward.kill()?;
    let healthy = ward.successor().start().await?;
    let service = ["delete", "service", "volume-warden", "-n", "volume-warden"];
    ward.cluster.kubectl(&service).await?;
    ward.nobody_notices().await?;
    ward.users.are_whole().await?;
    let manifests = repository().join("manifests");
    ward.cluster.apply_kustomization(manifests).await?;
    let webhooks = ward.cluster.webhooks();
    webhooks.serve(SERVICE, vec![healthy.webhook_port()]);
    webhooks_answer(&ward.cluster.client()).await
}
