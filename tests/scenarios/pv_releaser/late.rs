//! What happened while no Volume Warden was there.

use super::{fault_fixture::FaultFixture, support::PROVISIONER};
use anyhow::Result;
use serde_json::json;

/// PR-17, PR-18
#[tokio::test]
async fn what_was_missed_is_caught_up_with() -> Result<()> {
    let fixture = FaultFixture::new("missed").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    estate.pair("data", json!({PROVISIONER: id})).await?;
    let warden = fixture.start().await?;
    estate.is_labelled("data", id).await?;
    // Who ends says nothing more.
    estate.reported("data", "Associated", 1).await?;
    warden.stop().await?;
    estate.space.delete_claim("data").await?;
    estate.is("data", "Released").await?;
    let _successor = fixture.start().await?;
    estate.is_free("data").await?;
    for reason in ["Associated", "Released"] {
        estate.reported("data", reason, 1).await?;
    }
    Ok(())
}
