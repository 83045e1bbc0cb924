//! Another client is faster, or the API server fails, between what was decided and what is written.

use super::{fault_fixture::FaultFixture, support::LABEL};
use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;
use volume_warden_controlplane::eventually;

impl FaultFixture {
    /// A volume that is managed and Released, before Volume Warden is there.
    async fn create_own(&self, name: &str) -> Result<()> {
        let labels = json!({"metadata": {"labels": {LABEL: self.estate.id()}}});
        self.estate.create_abandoned(name, labels).await?;
        self.estate.is(name, "Released").await
    }
}

/// PR-15: the claim that has the volume now keeps it.
#[tokio::test]
async fn a_volume_that_was_bound_meanwhile_stays_bound() -> Result<()> {
    let fixture = FaultFixture::new("rebound").await?;
    let estate = &fixture.estate;
    fixture.create_own("data").await?;
    // Also what comes after one that was given up.
    let slow = fixture.interposer.add(fixture.write_of("data").postpone());
    let _warden = fixture.start().await?;
    slow.held(1).await?;
    estate
        .patch("data", json!({"spec": {"claimRef": null}}))
        .await?;
    estate.is("data", "Available").await?;
    let next = estate.claim_any("next", json!({})).await?;
    estate.is("data", "Bound").await?;
    // It has heard of that, and tries no more.
    fixture.settled().await?;
    let tries = fixture.writes("data");
    let audit = estate.space.cluster.audit();
    let (mark, pv) = (audit.mark()?, estate.pv("data"));
    slow.release();
    let codes = eventually("the late releases were answered", async || {
        let calls = audit.since(mark)?.by_user_agent("volume-warden/").writes();
        let own = calls.iter().filter(|call| call.name == pv);
        let codes: Vec<_> = own.map(|call| call.code).collect();
        anyhow::Ok(Some(codes).filter(|codes| codes.len() >= tries))
    });
    assert_eq!(codes.await?, vec![422; tries]);
    fixture.settled().await?;
    let bound = estate.get("data").await?.spec.unwrap_or_default();
    assert_eq!(bound.claim_ref.and_then(|claim| claim.uid), next.uid());
    assert_eq!(fixture.writes("data"), tries);
    estate.is("data", "Bound").await
}

/// PR-24: an Event says why, in short; the write is retried, and one Event reports the end.
#[tokio::test]
async fn a_failed_release_is_reported_of_and_tried_again() -> Result<()> {
    let fixture = FaultFixture::new("failing").await?;
    let estate = &fixture.estate;
    fixture.create_own("data").await?;
    let failure = fixture.write_of("data").times(2);
    let failure = failure.respond(500, "InternalError", "no disk is left");
    let failure = fixture.interposer.add(failure);
    let _warden = fixture.start().await?;
    estate.is_free("data").await?;
    assert_eq!((failure.taken(), fixture.writes("data")), (2, 3));
    let warning = eventually("a warning says so", async || {
        let events = estate.reported_of("data", "ErrReleasePV").await?;
        anyhow::Ok(events.into_iter().next())
    });
    let warning = warning.await?;
    let message = warning.message.unwrap_or_default();
    ensure!(
        message.contains("no disk is left") && message.len() < 200,
        "{message}"
    );
    assert_eq!(warning.type_.as_deref(), Some("Warning"));
    estate.reported("data", "Released", 1).await.map(drop)
}
