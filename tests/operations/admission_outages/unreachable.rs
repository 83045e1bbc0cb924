//! No process serves Volume Warden's address.

use super::fixture::{OutageFixture, SERVICE};
use crate::support::{manifests, repository, webhooks_answer};
use anyhow::Result;

#[tokio::test]
async fn dead() -> Result<()> {
    let fixture = OutageFixture::open("dead").await?;
    fixture.kill()?;
    fixture.users_are_unaffected().await?;
    let _successor = fixture.successor().serving().start().await?;
    fixture.recovers().await
}

/// Volume Warden is healthy and cannot detect the outage: its reconcilers repair what admission
/// misses.
#[tokio::test]
async fn its_service_has_no_endpoints() -> Result<()> {
    let fixture = OutageFixture::open("endpoints").await?;
    fixture.cluster.webhooks().serve(SERVICE, vec![]);
    // The API server would keep using open connections.
    fixture.kill()?;
    let healthy = fixture.successor().start().await?;
    fixture.users_are_unaffected().await?;
    fixture.users.are_whole().await?;
    let webhooks = fixture.cluster.webhooks();
    webhooks.serve(SERVICE, vec![healthy.webhook_port()]);
    webhooks_answer(&fixture.cluster.client()).await
}

#[tokio::test]
async fn its_service_is_deleted() -> Result<()> {
    let fixture = OutageFixture::open("service").await?;
    fixture.kill()?;
    let healthy = fixture.successor().start().await?;
    let service = ["delete", "service", "volume-warden", "-n", "volume-warden"];
    fixture.cluster.kubectl(&service).await?;
    fixture.users_are_unaffected().await?;
    fixture.users.are_whole().await?;
    manifests::apply(&fixture.cluster, &repository().join("manifests")).await?;
    let webhooks = fixture.cluster.webhooks();
    webhooks.serve(SERVICE, vec![healthy.webhook_port()]);
    webhooks_answer(&fixture.cluster.client()).await
}
