//! What happened while no Volume Warden was there.

use super::{patient::Patient, support::PROVISIONER};
use anyhow::Result;
use serde_json::json;

/// PR-17, PR-18
#[tokio::test]
async fn what_was_missed_is_caught_up_with() -> Result<()> {
    let patient = Patient::new("missed").await?;
    let (estate, id) = (&patient.estate, patient.estate.id());
    estate.pair("data", json!({PROVISIONER: id})).await?;
    let warden = patient.start().await?;
    estate.is_labelled("data", id).await?;
    // Who ends says nothing more.
    estate.reported("data", "Associated", 1).await?;
    warden.stop().await?;
    estate.space.delete_claim("data").await?;
    estate.is("data", "Released").await?;
    let _successor = patient.start().await?;
    estate.is_free("data").await?;
    for reason in ["Associated", "Released"] {
        estate.reported("data", reason, 1).await?;
    }
    Ok(())
}
