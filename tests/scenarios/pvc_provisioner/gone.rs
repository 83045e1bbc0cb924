//! Pods that are gone while nobody owns their claims, and pods whose end the watch has not told of.

use super::{
    admission::{posted::asked_for, ward::Ward},
    patient::{Patient, watch_of},
    support::{Askers, MARK, awaiting},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use serde_json::json;
use volume_warden_controlplane::{Warden, eventually};

/// For the grace, longer than any test.
const LONG: &str = "--orphan-grace=86400";

/// A claim that was made at admission and is pending. Its pod, which has its name, was seen.
async fn pending(askers: &Askers) -> Result<PersistentVolumeClaim> {
    let (posted, claim) = asked_for(askers).await?;
    let name = posted.object::<Pod>()?.name_any();
    askers.is_told(&name, "PVCProvisioned", "created").await?;
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

/// Its pod was seen, so no other one is on its way. As the garbage collector would, and without
/// the grace.
#[tokio::test]
async fn a_pending_claim_goes_with_its_pod() -> Result<()> {
    let ward = Ward::new("pending", &[LONG]).await?;
    let askers = &ward.askers;
    let name = pending(askers).await?.name_any();
    askers.space.delete_pod(&name).await?;
    askers.space.claim_is_gone(&name).await
}

/// The garbage collector would not look at that.
#[tokio::test]
async fn a_claim_that_another_pod_uses_outlives_its_pod() -> Result<()> {
    let ward = Ward::new("used", &[LONG]).await?;
    let (askers, space) = (&ward.askers, &ward.askers.space);
    let nobodys = json!({"spec": {"schedulerName": "nobody"}});
    for bound in [false, true] {
        let claim = pending(askers).await?;
        let name = claim.name_any();
        let user = format!("user-of-{name}");
        space.create_pod(&user, &name, nobodys.clone()).await?;
        space.delete_pod(&name).await?;
        let unbound = stays(askers, &claim).await?;
        assert_eq!(unbound.resource_version(), claim.resource_version());
        if bound {
            askers.bind(&name).await?;
            let kept = stays(askers, &claim).await?;
            let freed = !kept.annotations().contains_key(MARK);
            ensure!(freed && kept.owner_references().is_empty(), "{kept:?}");
        } else {
            space.delete_pod(&user).await?;
            space.claim_is_gone(&name).await?;
        }
    }
    Ok(())
}

/// A claim that awaits its pod, which was seen. The grace is long.
async fn seen(patient: &Patient) -> Result<(Warden, PersistentVolumeClaim)> {
    let askers = &patient.askers;
    let claim = askers.create_claim("data", awaiting()).await?;
    let warden = patient.builder("warden").arg(LONG).start().await?;
    askers.ask("pod", "data", json!({})).await?;
    askers.is_told("pod", "PVCProvisioned", "created").await?;
    Ok((warden, claim))
}

/// It does not know that the pod was seen, and waits for the grace.
#[tokio::test]
async fn a_successor_collects_a_claim_whose_pod_is_gone() -> Result<()> {
    let patient = Patient::new("successor").await?;
    let (warden, _) = seen(&patient).await?;
    drop(warden);
    patient.askers.space.delete_pod("pod").await?;
    let _successor = patient.start_impatient().await?;
    patient.askers.space.claim_is_gone("data").await
}

/// The pod is deleted and created again, and the watch has told of neither. The claim is bound,
/// and so it is asked who is there.
#[tokio::test]
async fn a_claim_is_given_to_the_successor_of_its_pod() -> Result<()> {
    let patient = Patient::new("namesake").await?;
    let (_warden, claim) = seen(&patient).await?;
    let (askers, space) = (&patient.askers, &patient.askers.space);
    let frozen = patient.between.add(watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    space.delete_pod("pod").await?;
    let again = askers.ask("pod", "data", json!({})).await?;
    assert_eq!(askers.belongs("data", &again).await?.uid(), claim.uid());
    drop(frozen);
    askers.settled().await?;
    assert_eq!(patient.deleted(), [""; 0]);
    Ok(())
}

/// The garbage collector deletes its claim. For all that the watch tells it still waits for one.
#[tokio::test]
async fn a_pod_that_is_gone_gets_no_other_claim() -> Result<()> {
    let patient = Patient::new("late-end").await?;
    let (askers, space) = (&patient.askers, &patient.askers.space);
    let _warden = patient.start().await?;
    let pod = askers.ask("pod", "data", json!({})).await?;
    askers.belongs("data", &pod).await?;
    let frozen = patient.between.add(watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    let looks = || patient.count("GET", "/pods/pod");
    let before = looks();
    space.delete_pod("pod").await?;
    eventually("the claim is missed, and the pod too", async || {
        let (looks, posts) = (looks(), patient.posts());
        ensure!(looks > before, "{posts} claims");
        Ok(())
    })
    .await?;
    drop(frozen);
    askers.settled().await?;
    assert_eq!(patient.posts(), 2, "the canary's");
    ensure!(space.claims.get_opt("data").await?.is_none());
    Ok(())
}
