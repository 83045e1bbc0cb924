//! Pods that are gone while their claims have no owner, and pods whose deletion the watch has not
//! delivered.

use super::{
    admission::{outage_fixture::OutageFixture, posted::asked_for},
    fault_fixture::FaultFixture,
    support::{Askers, MARK, awaiting},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use serde_json::json;
use volume_warden_controlplane::{Rule, Warden, eventually};

/// A grace period longer than any test.
const LONG: &str = "--orphan-grace=86400";

/// A pending claim that was created at admission. Its pod, which has its name, was observed.
async fn pending(askers: &Askers) -> Result<PersistentVolumeClaim> {
    let (posted, claim) = asked_for(askers).await?;
    let name = posted.object::<Pod>()?.name_any();
    askers.has_event(&name, "PVCProvisioned", "created").await?;
    let claim_now = askers.claim(&name).await?;
    assert_eq!(claim_now.resource_version(), claim.resource_version());
    ensure!(claim.annotations().contains_key(MARK), "{claim:?}");
    Ok(claim)
}

async fn stays(askers: &Askers, before: &PersistentVolumeClaim) -> Result<PersistentVolumeClaim> {
    askers.settled().await?;
    let claim = askers.claim(&before.name_any()).await?;
    ensure!(claim.metadata.deletion_timestamp.is_none(), "{claim:?}");
    assert_eq!(claim.uid(), before.uid());
    Ok(claim)
}

/// The pod was observed, so no other one is pending. The claim is deleted as by the garbage
/// collector, without the grace period.
#[tokio::test]
async fn a_pending_claim_is_deleted_with_its_pod() -> Result<()> {
    let fixture = OutageFixture::new("pending", &[LONG]).await?;
    let askers = &fixture.askers;
    let name = pending(askers).await?.name_any();
    askers.space.delete_pod(&name).await?;
    askers.space.claim_is_gone(&name).await
}

/// The garbage collector would not check for other users.
#[tokio::test]
async fn a_claim_that_another_pod_uses_outlives_its_pod() -> Result<()> {
    let fixture = OutageFixture::new("used", &[LONG]).await?;
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
    let unscheduled = json!({"spec": {"schedulerName": "absent"}});
    for bound in [false, true] {
        let claim = pending(askers).await?;
        let name = claim.name_any();
        let user = format!("user-of-{name}");
        space.create_pod(&user, &name, unscheduled.clone()).await?;
        space.delete_pod(&name).await?;
        let unbound = stays(askers, &claim).await?;
        assert_eq!(unbound.resource_version(), claim.resource_version());
        if bound {
            askers.bind(&name).await?;
            // The first attempt may conflict with pvc-protection, which writes the condition
            // Unused of a claim that was just bound.
            eventually("the bound claim awaits no pod", async || {
                let claim = askers.claim(&name).await?;
                ensure!(!claim.annotations().contains_key(MARK), "{claim:?}");
                Ok(())
            })
            .await?;
            let kept = stays(askers, &claim).await?;
            ensure!(kept.owner_references().is_empty(), "{kept:?}");
        } else {
            space.delete_pod(&user).await?;
            space.claim_is_gone(&name).await?;
        }
    }
    Ok(())
}

/// A claim that awaits its pod, which was observed. The grace period is long.
async fn seen(fixture: &FaultFixture) -> Result<(Warden, PersistentVolumeClaim)> {
    let askers = &fixture.askers;
    let claim = askers.create_claim("data", awaiting()).await?;
    let warden = fixture.builder("warden").arg(LONG).start().await?;
    askers.ask("pod", "data", json!({})).await?;
    askers.has_event("pod", "PVCProvisioned", "created").await?;
    Ok((warden, claim))
}

/// The successor does not know that the pod was observed, and waits for the grace period.
#[tokio::test]
async fn a_successor_collects_a_claim_whose_pod_is_gone() -> Result<()> {
    let fixture = FaultFixture::new("successor").await?;
    let (warden, _) = seen(&fixture).await?;
    drop(warden);
    fixture.askers.space.delete_pod("pod").await?;
    let _successor = fixture.start_impatient().await?;
    fixture.askers.space.claim_is_gone("data").await
}

/// The pod is deleted and recreated, and the watch has delivered neither. The claim is bound, so
/// Volume Warden reads the pod live.
#[tokio::test]
async fn a_claim_is_given_to_the_successor_of_its_pod() -> Result<()> {
    let fixture = FaultFixture::new("namesake").await?;
    let (_warden, claim) = seen(&fixture).await?;
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    space.delete_pod("pod").await?;
    let again = askers.ask("pod", "data", json!({})).await?;
    assert_eq!(askers.belongs("data", &again).await?.uid(), claim.uid());
    drop(frozen);
    askers.settled().await?;
    assert_eq!(fixture.deleted(), [""; 0]);
    Ok(())
}

/// The garbage collector deletes the claim. In the stale cache the pod still waits for one.
#[tokio::test]
async fn a_deleted_pod_gets_no_other_claim() -> Result<()> {
    let fixture = FaultFixture::new("late-end").await?;
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
    let _warden = fixture.start().await?;
    let pod = askers.ask("pod", "data", json!({})).await?;
    askers.belongs("data", &pod).await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    let looks = || fixture.interposer.count("GET", "/pods/pod");
    let before = looks();
    space.delete_pod("pod").await?;
    eventually("the claim is missed, and the pod too", async || {
        let (looks, posts) = (looks(), fixture.posts());
        ensure!(looks > before, "{posts} claims");
        Ok(())
    })
    .await?;
    drop(frozen);
    askers.settled().await?;
    assert_eq!(fixture.posts(), 2, "the canary's");
    ensure!(space.claims.get_opt("data").await?.is_none());
    Ok(())
}
