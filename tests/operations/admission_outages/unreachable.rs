//! No process serves Volume Warden's address.

use super::fixture::{OutageFixture, SERVICE};
use crate::support::{manifests, repository, webhooks_answer};
use anyhow::Result;

/// Volume Warden is killed, and a new process does the missed work.
#[tokio::test]
async fn dead() -> Result<()> {
    let fixture = OutageFixture::open("dead").await?;
    fixture.kill()?;
    fixture.users_are_unaffected().await?;
    let _successor = fixture.successor().serving().start().await?;
    fixture.recovers().await
}

/// Volume Warden is healthy, but its Service has no endpoints. The reconcilers do the work that
/// admission misses, before the outage ends.
#[tokio::test]
async fn its_service_has_no_endpoints() -> Result<()> {
    let fixture = OutageFixture::open("endpoints").await?;
    fixture.cluster.webhooks().serve(SERVICE, vec![]);
    // Without this, the API server would continue to use open connections.
    fixture.kill()?;
    let healthy = fixture.successor().start().await?;
    fixture.users_are_unaffected().await?;
    fixture.users.missed_work_is_done().await?;
    let webhooks = fixture.cluster.webhooks();
    webhooks.serve(SERVICE, vec![healthy.webhook_port()]);
    webhooks_answer(&fixture.cluster.client()).await
}

/// Volume Warden is healthy, but its Service is deleted. The reconcilers do the work that admission
/// misses, before the Service is restored.
#[tokio::test]
async fn its_service_is_deleted() -> Result<()> {
    let fixture = OutageFixture::open("service").await?;
    fixture.kill()?;
    let healthy = fixture.successor().start().await?;
    let service = ["delete", "service", "volume-warden", "-n", "volume-warden"];
    fixture.cluster.kubectl(&service).await?;
    fixture.users_are_unaffected().await?;
    fixture.users.missed_work_is_done().await?;
    manifests::apply(&fixture.cluster, &repository().join("manifests")).await?;
    let webhooks = fixture.cluster.webhooks();
    webhooks.serve(SERVICE, vec![healthy.webhook_port()]);
    webhooks_answer(&fixture.cluster.client()).await
}
