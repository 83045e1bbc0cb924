//! Another client writes the volume, or the API server fails, between the decision and the write.

use super::fault_fixture::FaultFixture;
use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;
use volume_warden_controlplane::eventually;

/// PR-15: a late release does not remove the claimRef of the claim that is bound to the volume now.
#[tokio::test]
async fn a_volume_that_was_bound_meanwhile_stays_bound() -> Result<()> {
    let fixture = FaultFixture::new("rebound").await?;
    let volume_space = &fixture.volume_space;
    fixture.create_released("data").await?;
    // Also holds the patches that Volume Warden sends after it abandoned one.
    let slow = fixture.interposer.add(fixture.write_of("data").postpone());
    let _warden = fixture.start().await?;
    slow.held(1).await?;
    volume_space
        .patch("data", json!({"spec": {"claimRef": null}}))
        .await?;
    volume_space.has_phase("data", "Available").await?;
    let next = volume_space.claim_any("next", json!({})).await?;
    volume_space.has_phase("data", "Bound").await?;
    // Volume Warden has seen the binding, and sends no further patch.
    fixture.settled().await?;
    let tries = fixture.writes("data");
    let audit = volume_space.space.cluster.audit();
    let (mark, pv) = (audit.mark()?, volume_space.pv("data"));
    slow.release();
    let codes = eventually("the late patches were answered", async || {
        let calls = audit.since(mark)?.by_user_agent("volume-warden/").writes();
        let own = calls.iter().filter(|call| call.name == pv);
        let codes: Vec<_> = own.map(|call| call.code).collect();
        anyhow::Ok(Some(codes).filter(|codes| codes.len() >= tries))
    });
    assert_eq!(codes.await?, vec![422; tries]);
    fixture.settled().await?;
    let bound = volume_space.get("data").await?.spec.unwrap_or_default();
    assert_eq!(bound.claim_ref.and_then(|claim| claim.uid), next.uid());
    assert_eq!(fixture.writes("data"), tries);
    volume_space.has_phase("data", "Bound").await
}

/// PR-24: a Warning with a short cause is published, the write is retried, and one Event reports
/// the release.
#[tokio::test]
async fn a_failed_release_is_reported_and_retried() -> Result<()> {
    let fixture = FaultFixture::new("failing").await?;
    let volume_space = &fixture.volume_space;
    fixture.create_released("data").await?;
    let failure = fixture.write_of("data").times(2);
    let failure = failure.respond(500, "InternalError", "no disk is left");
    let failure = fixture.interposer.add(failure);
    let _warden = fixture.start().await?;
    volume_space.is_free("data").await?;
    assert_eq!((failure.taken(), fixture.writes("data")), (2, 3));
    let warning = eventually("a Warning reports the failure", async || {
        let events = volume_space.events_about("data", "ErrReleasePV").await?;
        anyhow::Ok(events.into_iter().next())
    });
    let warning = warning.await?;
    let message = warning.message.unwrap_or_default();
    ensure!(
        message.contains("no disk is left") && message.len() < 200,
        "{message}"
    );
    assert_eq!(warning.type_.as_deref(), Some("Warning"));
    volume_space
        .has_events("data", "Released", 1)
        .await
        .map(drop)
}
