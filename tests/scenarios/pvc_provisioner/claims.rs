//! The claim is there already, or was.

use super::{
    patient::{Patient, claim_posts, watch_of},
    refusals::Quota,
    support::{TEMPLATE, annotations},
};
use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;
use volume_warden_controlplane::eventually;

/// DP-17: nobody's claim and another pod's are used as they are, and the pods are told whose they are.
#[tokio::test]
async fn a_claim_that_exists_is_used_as_it_is() -> Result<()> {
    let patient = Patient::new("shared").await?;
    let askers = &patient.askers;
    let _warden = patient.start().await?;
    askers.create_claim("free", json!({})).await?;
    askers.space.claim_is_protected("free").await?;
    let owner = askers.ask("owner", "owned", json!({})).await?;
    let owned = askers.belongs("owned", &owner).await?;
    let free = askers.claim("free").await?;
    let posts = patient.posts();

    askers.ask("second", "owned", json!({})).await?;
    askers.ask("third", "free", json!({})).await?;
    askers
        .is_told("second", "ClaimShared", "owned by Pod \"owner\"")
        .await?;
    askers
        .is_told("third", "ClaimShared", "it has no owner")
        .await?;
    askers.settled().await?;
    for before in [owned, free] {
        let name = before.name_any();
        let now = askers.claim(&name).await?;
        assert_eq!(now.resource_version(), before.resource_version(), "{name}");
    }
    for pod in ["second", "third"] {
        assert_eq!(askers.told(pod).await?.len(), 1);
    }
    assert_eq!(patient.posts(), posts + 1, "the canary's");
    Ok(())
}

/// DP-17, B-DP-3: also if the watch has not told of it.
#[tokio::test]
async fn a_claim_that_the_watch_has_not_told_of_is_not_asked_for() -> Result<()> {
    let patient = Patient::new("late-claims").await?;
    let askers = &patient.askers;
    let _warden = patient.start().await?;
    let frozen = patient
        .between
        .add(watch_of("persistentvolumeclaims").freeze_stream());
    frozen.held(1).await?;
    let before = askers.create_claim("data", json!({})).await?;
    askers.ask("pod", "data", json!({})).await?;
    let read = || patient.count("GET", "/persistentvolumeclaims/data") > 0;
    eventually("the claim is looked for", async || read()).await?;
    askers.settled().await?;
    drop(frozen);
    askers
        .is_told("pod", "ClaimShared", "it has no owner")
        .await?;
    assert_eq!(patient.posts(), 1, "the canary's");
    assert_eq!(askers.claim("data").await?.uid(), before.uid());
    Ok(())
}

/// Somebody else is faster by a moment.
#[tokio::test]
async fn a_claim_that_somebody_makes_first_is_no_failure() -> Result<()> {
    let patient = Patient::new("first").await?;
    let askers = &patient.askers;
    let _warden = patient.start().await?;
    let held = patient.between.add(claim_posts().hold());
    askers.ask("pod", "data", json!({})).await?;
    held.held(1).await?;
    let first = askers.create_claim("data", json!({})).await?;
    drop(held);
    askers
        .is_told("pod", "ClaimShared", "it has no owner")
        .await?;
    askers.settled().await?;
    let mut told = askers.told("pod").await?;
    // On a busy machine a POST that was held may have been given up before somebody else was faster.
    told.retain(|(_, message)| !message.contains("the API server did not answer"));
    assert_eq!(told.len(), 1, "{told:?}");
    let mut codes = askers.creations()?;
    codes.retain(|code| *code != 201);
    ensure!(codes.is_empty() || codes == [409], "{codes:?}");
    assert_eq!(askers.claim("data").await?.uid(), first.uid());
    Ok(())
}

/// DP-18: made as soon as the old one is gone, without anything happening to the pod.
#[tokio::test]
async fn a_claim_that_is_being_deleted_is_made_anew() -> Result<()> {
    let patient = Patient::new("stale").await?;
    let (askers, space) = (&patient.askers, &patient.askers.space);
    let _warden = patient.start().await?;
    let held =
        json!({"metadata": {"finalizers": ["example.com/hold", "kubernetes.io/pvc-protection"]}});
    let old = askers.create_claim("data", held).await?;
    space.delete_claim("data").await?;
    let pod = askers.ask("pod", "data", json!({})).await?;
    askers
        .is_told("pod", "ClaimTerminating", "\"data\"")
        .await?;
    askers.settled().await?;
    let posts = patient.posts();
    space
        .patch_claim("data", json!({"metadata": {"finalizers": null}}))
        .await?;
    let new = askers.belongs("data", &pod).await?;
    ensure!(new.uid() != old.uid(), "{new:?}");
    askers.is_told("pod", "PVCProvisioned", "\"data\"").await?;
    assert_eq!(
        (askers.told("pod").await?.len(), patient.posts()),
        (2, posts + 1)
    );
    Ok(())
}

/// B-DP-13: what somebody deletes while the pod waits is made anew, too.
#[tokio::test]
async fn a_claim_that_somebody_deletes_is_made_anew() -> Result<()> {
    let patient = Patient::new("deleted").await?;
    let askers = &patient.askers;
    let _warden = patient.start().await?;
    let pod = askers.ask("pod", "data", json!({})).await?;
    let first = askers.belongs("data", &pod).await?;
    askers.space.delete_claim("data").await?;
    eventually("there is another", async || {
        anyhow::Ok(askers.claim("data").await?.uid() != first.uid())
    })
    .await?;
    askers.belongs("data", &pod).await?;
    Ok(())
}

/// DP-24: the quota would refuse the POST of what exists.
#[tokio::test]
async fn a_quota_that_the_claim_itself_exhausts_is_no_failure() -> Result<()> {
    let patient = Patient::new("exhausted").await?;
    let askers = &patient.askers;
    let warden = patient.start().await?;
    let quota = Quota::new(askers, json!({"persistentvolumeclaims": "1"})).await?;
    let pod = askers.ask("pod", "data", json!({})).await?;
    askers.belongs("data", &pod).await?;
    askers.is_told("pod", "PVCProvisioned", "\"data\"").await?;
    let answers = || {
        let mut codes = askers.creations()?;
        // Counting what there is may make for a conflict, after which it is asked again at once.
        codes.retain(|code| *code != 409);
        anyhow::Ok(codes)
    };
    assert_eq!(answers()?, [201]);
    for round in 0..3 {
        let condition = json!({"type": "Round", "status": "False", "message": round.to_string()});
        askers
            .space
            .patch_pod_status("pod", json!({"conditions": [condition]}))
            .await?;
        // What it asks for changes, too, and it is looked at again.
        let round = format!("{}# {round}\n", TEMPLATE);
        askers
            .patch_pod("pod", annotations(&[("data.pvc", Some(&round))]))
            .await?;
    }
    askers.heard().await?;
    drop(warden);
    let _again = patient.start().await?;
    askers.heard().await?;
    quota.end().await?;
    askers.settled().await?;
    assert_eq!(answers()?, [201, 201], "the canary's");
    assert_eq!(askers.told("pod").await?.len(), 1);
    Ok(())
}
