//! Changes that happened while no Volume Warden ran.

use super::{fault_fixture::FaultFixture, support::PROVISIONER};
use anyhow::Result;
use serde_json::json;

/// PR-17, PR-18: the claim is bound before Volume Warden starts, and deleted between two runs.
#[tokio::test]
async fn changes_during_downtime_are_handled_after_the_start() -> Result<()> {
    let fixture = FaultFixture::new("missed").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    estate.pair("data", json!({PROVISIONER: id})).await?;
    let warden = fixture.start().await?;
    estate.is_labelled("data", id).await?;
    // A process that stops publishes no further Events.
    estate.has_events("data", "Associated", 1).await?;
    warden.stop().await?;
    estate.space.delete_claim("data").await?;
    estate.has_phase("data", "Released").await?;
    let _successor = fixture.start().await?;
    estate.is_free("data").await?;
    for reason in ["Associated", "Released"] {
        estate.has_events("data", reason, 1).await?;
    }
    Ok(())
}
