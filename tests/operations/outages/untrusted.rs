//! A client answers whom the API server does not trust.

use super::{
    stand_in::{Authority, StandIn},
    ward::Ward,
};
use crate::support::webhooks_answer;
use anyhow::Result;
use volume_warden_controlplane::Rule;

#[tokio::test]
async fn its_certificate_has_expired() -> Result<()> {
    let ward = Ward::open("expired").await?;
    ward.kill()?;
    let authority = Authority::trusted_by(ward.cluster).await?;
    let stand_in = StandIn::start(&ward, &authority.issue(-1)?, vec![Vec::new()]).await?;
    ward.nobody_notices().await?;
    assert_eq!(stand_in.answered(), 0, "an expired certificate was trusted");
    drop(stand_in);
    let _successor = ward.successor().serving().start().await?;
    ward.recovers().await
}

/// While it may not write its caBundle, what admission misses is made good in the background; then it mends the caBundle.
#[tokio::test]
async fn its_authority_is_swapped() -> Result<()> {
    let ward = Ward::open("swapped").await?;
    let publish = Rule::on("PATCH").path_contains("webhookconfigurations");
    let refused = publish.respond(503, "ServiceUnavailable", "not now");
    let refused = ward.between.add(refused);
    Authority::trusted_by(ward.cluster).await?;
    ward.nobody_answers().await?;
    ward.nobody_notices().await?;
    ward.users.are_whole().await?;
    drop(refused);
    webhooks_answer(&ward.cluster.client()).await
}
