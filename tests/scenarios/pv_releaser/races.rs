//! Another client is faster, or the API server fails, between what was decided and what is written.

use super::{patient::Patient, support::LABEL};
use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;
use volume_warden_controlplane::eventually;

impl Patient {
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
    let patient = Patient::new("rebound").await?;
    let estate = &patient.estate;
    patient.create_own("data").await?;
    // Also what comes after one that was given up.
    let slow = patient.between.add(patient.write_of("data").postpone());
    let _warden = patient.start().await?;
    slow.held(1).await?;
    estate
        .patch("data", json!({"spec": {"claimRef": null}}))
        .await?;
    estate.is("data", "Available").await?;
    let next = estate.claim_any("next", json!({})).await?;
    estate.is("data", "Bound").await?;
    // It has heard of that, and tries no more.
    patient.settled().await?;
    let tries = patient.writes("data");
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
    patient.settled().await?;
    let bound = estate.get("data").await?.spec.unwrap_or_default();
    assert_eq!(bound.claim_ref.and_then(|claim| claim.uid), next.uid());
    assert_eq!(patient.writes("data"), tries);
    estate.is("data", "Bound").await
}

/// PR-24: an Event says why, in short; the write is retried, and one Event reports the end.
#[tokio::test]
async fn a_failed_release_is_reported_of_and_tried_again() -> Result<()> {
    let patient = Patient::new("failing").await?;
    let estate = &patient.estate;
    patient.create_own("data").await?;
    let failure = patient.write_of("data").times(2);
    let failure = failure.respond(500, "InternalError", "no disk is left");
    let failure = patient.between.add(failure);
    let _warden = patient.start().await?;
    estate.is_free("data").await?;
    assert_eq!((failure.taken(), patient.writes("data")), (2, 3));
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
