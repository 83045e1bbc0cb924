//! The API server does not trust the serving certificate.

use super::{
    fixture::OutageFixture,
    stand_in::{Authority, StandIn},
};
use crate::support::webhooks_answer;
use anyhow::Result;
use volume_warden_controlplane::Rule;

/// A stand-in with an expired certificate receives no review.
#[tokio::test]
async fn its_certificate_has_expired() -> Result<()> {
    let fixture = OutageFixture::open("expired").await?;
    fixture.kill()?;
    let authority = Authority::trusted_by(&fixture.cluster).await?;
    let stand_in = StandIn::start(&fixture, &authority.issue(-1)?, vec![Vec::new()]).await?;
    fixture.users_are_unaffected().await?;
    assert_eq!(stand_in.answered(), 0, "an expired certificate was trusted");
    drop(stand_in);
    let _successor = fixture.successor().serving().start().await?;
    fixture.recovers().await
}

/// The caBundles are replaced by a foreign CA. While Volume Warden cannot write the caBundles, its
/// reconcilers do the work that admission misses. Once writes succeed, it repairs the caBundles.
#[tokio::test]
async fn its_authority_is_swapped() -> Result<()> {
    let mut fixture = OutageFixture::open("swapped").await?;
    let publish = Rule::on("PATCH").path_contains("webhookconfigurations");
    let refused = publish.respond(503, "ServiceUnavailable", "not now");
    let refused = fixture.interposer.add(refused);
    Authority::trusted_by(&fixture.cluster).await?;
    fixture.no_webhook_is_trusted().await?;
    fixture.users_are_unaffected().await?;
    fixture.users.missed_work_is_done().await?;
    drop(refused);
    webhooks_answer(&fixture.cluster.client()).await
}
