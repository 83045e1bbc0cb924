//! Changes that happened while no Volume Warden ran.

use super::{fault_fixture::FaultFixture, support::PROVISIONER};
use anyhow::Result;
use serde_json::json;

/// PR-17, PR-18: the claim is bound before Volume Warden starts, and deleted between two runs.
#[tokio::test]
async fn changes_during_downtime_are_handled_after_the_start() -> Result<()> {
    let fixture = FaultFixture::new("missed").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    volume_space.pair("data", json!({PROVISIONER: id})).await?;
    let warden = fixture.start().await?;
    volume_space.is_labelled("data", id).await?;
    // A process that stops publishes no further Events.
    volume_space.has_events("data", "Associated", 1).await?;
    warden.stop().await?;
    volume_space.space.delete_claim("data").await?;
    volume_space.has_phase("data", "Released").await?;
    let _successor = fixture.start().await?;
    volume_space.is_free("data").await?;
    for reason in ["Associated", "Released"] {
        volume_space.has_events("data", reason, 1).await?;
    }
    Ok(())
}
