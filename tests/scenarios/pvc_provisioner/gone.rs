//! Pods that are deleted while their claims have no owner, and pods whose deletion the watch has
//! not delivered.

use super::{
    admission::{outage_fixture::OutageFixture, posted::post_and_get_claim},
    fault_fixture::FaultFixture,
    support::{AWAITING_POD, PodSpace, awaiting},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use serde_json::json;
use volume_warden_controlplane::{Rule, Warden, eventually};

/// A grace period that is longer than any test.
const LONG_GRACE_PERIOD: &str = "--orphan-grace=86400";

/// Creates a pod, whose claim is created at admission and stays pending. The claim has the name of
/// the pod. Returns the claim once Volume Warden has observed the pod.
async fn pending_claim(pod_space: &PodSpace) -> Result<PersistentVolumeClaim> {
    let (response, claim) = post_and_get_claim(pod_space).await?;
    let name = response.object::<Pod>()?.name_any();
    pod_space
        .has_event(&name, "PVCProvisioned", "created")
        .await?;
    let claim_now = pod_space.claim(&name).await?;
    assert_eq!(claim_now.resource_version(), claim.resource_version());
    ensure!(claim.annotations().contains_key(AWAITING_POD), "{claim:?}");
    Ok(claim)
}

/// Checks that Volume Warden keeps the claim; returns the claim.
async fn is_kept(
    pod_space: &PodSpace,
    before: &PersistentVolumeClaim,
) -> Result<PersistentVolumeClaim> {
    pod_space.wait_until_processed().await?;
    let claim = pod_space.claim(&before.name_any()).await?;
    ensure!(claim.metadata.deletion_timestamp.is_none(), "{claim:?}");
    assert_eq!(claim.uid(), before.uid());
    Ok(claim)
}

/// Volume Warden has observed the pod of the pending claim. When the pod is deleted, Volume Warden
/// deletes the claim without waiting for the grace period, as the garbage collector does.
#[tokio::test]
async fn a_pending_claim_is_deleted_with_its_pod() -> Result<()> {
    let fixture = OutageFixture::new("pending", &[LONG_GRACE_PERIOD]).await?;
    let pod_space = &fixture.pod_space;
    let name = pending_claim(pod_space).await?.name_any();
    pod_space.space.delete_pod(&name).await?;
    pod_space.space.claim_is_gone(&name).await
}

/// A claim without an owner outlives its pod while another pod uses the claim. If the claim is
/// bound meanwhile, it is kept without an owner; if it is still pending, it is deleted with the
/// other pod.
#[tokio::test]
async fn a_claim_that_another_pod_uses_outlives_its_pod() -> Result<()> {
    let fixture = OutageFixture::new("used", &[LONG_GRACE_PERIOD]).await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let unscheduled = json!({"spec": {"schedulerName": "absent"}});
    for bound in [false, true] {
        let claim = pending_claim(pod_space).await?;
        let name = claim.name_any();
        let user = format!("user-of-{name}");
        space.create_pod(&user, &name, unscheduled.clone()).await?;
        space.delete_pod(&name).await?;
        let unbound = is_kept(pod_space, &claim).await?;
        assert_eq!(unbound.resource_version(), claim.resource_version());
        if bound {
            pod_space.bind(&name).await?;
            // The first write may conflict with the write of pvc-protection, which adds the
            // condition Unused to a claim that was just bound.
            eventually("the bound claim no longer has the marker", async || {
                let claim = pod_space.claim(&name).await?;
                ensure!(!claim.annotations().contains_key(AWAITING_POD), "{claim:?}");
                Ok(())
            })
            .await?;
            let kept = is_kept(pod_space, &claim).await?;
            ensure!(kept.owner_references().is_empty(), "{kept:?}");
        } else {
            space.delete_pod(&user).await?;
            space.claim_is_gone(&name).await?;
        }
    }
    Ok(())
}

/// Creates a claim that awaits its pod, starts Volume Warden with a long grace period, and creates
/// the pod. Returns once Volume Warden has observed the pod.
async fn claim_of_observed_pod(fixture: &FaultFixture) -> Result<(Warden, PersistentVolumeClaim)> {
    let pod_space = &fixture.pod_space;
    let claim = pod_space.create_claim("data", awaiting()).await?;
    let warden = fixture
        .builder("warden")
        .arg(LONG_GRACE_PERIOD)
        .start()
        .await?;
    pod_space.request_claim("pod", "data", json!({})).await?;
    pod_space
        .has_event("pod", "PVCProvisioned", "created")
        .await?;
    Ok((warden, claim))
}

/// The Volume Warden that observed the pod stops, and the pod is deleted. The next Volume Warden
/// does not know that the pod existed, and deletes the claim after the grace period.
#[tokio::test]
async fn a_restarted_volume_warden_deletes_a_claim_whose_pod_is_deleted() -> Result<()> {
    let fixture = FaultFixture::new("successor").await?;
    let (warden, _) = claim_of_observed_pod(&fixture).await?;
    drop(warden);
    fixture.pod_space.space.delete_pod("pod").await?;
    let _restarted = fixture.start_with_short_grace_period().await?;
    fixture.pod_space.space.claim_is_gone("data").await
}

/// The pod is deleted and recreated, and the watch has delivered neither change. The claim is
/// bound, so Volume Warden reads the pod live, and makes the recreated pod the owner.
#[tokio::test]
async fn a_recreated_pod_becomes_the_owner_of_the_claim() -> Result<()> {
    let fixture = FaultFixture::new("namesake").await?;
    let (_warden, claim) = claim_of_observed_pod(&fixture).await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    space.delete_pod("pod").await?;
    let recreated = pod_space.request_claim("pod", "data", json!({})).await?;
    assert_eq!(
        pod_space.belongs("data", &recreated).await?.uid(),
        claim.uid()
    );
    drop(frozen);
    pod_space.wait_until_processed().await?;
    assert_eq!(fixture.deleted_claims(), [""; 0]);
    Ok(())
}

/// The pod is deleted, and the garbage collector deletes its claim. In the cache of Volume Warden,
/// whose watch is frozen, the pod still needs a claim.
#[tokio::test]
async fn a_deleted_pod_gets_no_other_claim() -> Result<()> {
    let fixture = FaultFixture::new("late-end").await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let _warden = fixture.start().await?;
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    pod_space.belongs("data", &pod).await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    let pod_reads = || fixture.interposer.count("GET", "/pods/pod");
    let before = pod_reads();
    space.delete_pod("pod").await?;
    eventually("Volume Warden reads the pod live", async || {
        let (reads, posts) = (pod_reads(), fixture.posts());
        ensure!(reads > before, "{posts} POSTs of claims");
        Ok(())
    })
    .await?;
    drop(frozen);
    pod_space.wait_until_processed().await?;
    assert_eq!(fixture.posts(), 2, "the claim and the canary's claim");
    ensure!(space.claims.get_opt("data").await?.is_none());
    Ok(())
}
