//! Answers of a proxy or a load balancer that knows no such page.

use super::{Patient, claim_write};
use anyhow::Result;

/// Only the API server can say that a claim does not exist: a 404 without its reason says nothing about the claim, so the removal of
/// the finalizer is tried again.
#[tokio::test]
async fn a_404_of_a_proxy_ends_no_claim() -> Result<()> {
    let patient = Patient::new("proxy-404").await?;
    let _warden = patient.start().await?;
    patient.claims(&["data"]).await?;
    let proxy = claim_write("data").times(2);
    let proxy = patient
        .between
        .add(proxy.respond(404, "", "404 page not found"));
    patient.space.delete_claim("data").await?;
    patient.space.claim_is_gone("data").await?;
    assert_eq!(proxy.taken(), 2);
    Ok(())
}
