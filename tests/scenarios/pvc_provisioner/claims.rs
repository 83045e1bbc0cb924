//! Pods that request a claim which exists already or existed before.

use super::{
    fault_fixture::{FaultFixture, claim_posts},
    refusals::Quota,
    support::{TEMPLATE, annotations},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

/// DP-17: a claim that exists, without an owner or with another pod as its owner, is used
/// unchanged. An Event names the owner.
#[tokio::test]
async fn a_claim_that_exists_is_used_as_it_is() -> Result<()> {
    let fixture = FaultFixture::new("shared").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    pod_space.create_claim("free", json!({})).await?;
    pod_space.space.claim_is_protected("free").await?;
    let owner = pod_space.request_claim("owner", "owned", json!({})).await?;
    let owned = pod_space.belongs("owned", &owner).await?;
    let free = pod_space.claim("free").await?;
    let posts = fixture.posts();

    pod_space
        .request_claim("second", "owned", json!({}))
        .await?;
    pod_space.request_claim("third", "free", json!({})).await?;
    pod_space
        .has_event("second", "ClaimShared", "owned by Pod \"owner\"")
        .await?;
    pod_space
        .has_event("third", "ClaimShared", "it has no owner")
        .await?;
    pod_space.wait_until_processed().await?;
    for before in [owned, free] {
        let name = before.name_any();
        let now = pod_space.claim(&name).await?;
        assert_eq!(without_condition(now), without_condition(before), "{name}");
    }
    for pod in ["second", "third"] {
        assert_eq!(pod_space.pod_events(pod).await?.len(), 1);
    }
    assert_eq!(fixture.posts(), posts + 1, "only the canary's claim");
    Ok(())
}

/// The claim without the fields that change when Volume Warden writes the condition Unused, which a
/// bound claim gets at any time.
fn without_condition(mut claim: PersistentVolumeClaim) -> PersistentVolumeClaim {
    claim.metadata.resource_version = None;
    claim.metadata.managed_fields = None;
    if let Some(status) = &mut claim.status {
        status.conditions = None;
    }
    claim
}

/// DP-17, B-DP-3: if the watch has not delivered the claim, Volume Warden reads the claim live, and
/// does not create it.
#[tokio::test]
async fn a_claim_that_the_watch_has_not_delivered_is_not_created() -> Result<()> {
    let fixture = FaultFixture::new("late-claims").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("persistentvolumeclaims").freeze_stream());
    frozen.held(1).await?;
    let before = pod_space.create_claim("data", json!({})).await?;
    pod_space.request_claim("pod", "data", json!({})).await?;
    let is_read = || {
        fixture
            .interposer
            .count("GET", "/persistentvolumeclaims/data")
            > 0
    };
    eventually("the claim is read live", async || is_read()).await?;
    pod_space.wait_until_processed().await?;
    drop(frozen);
    pod_space
        .has_event("pod", "ClaimShared", "it has no owner")
        .await?;
    assert_eq!(fixture.posts(), 1, "only the canary's claim");
    assert_eq!(pod_space.claim("data").await?.uid(), before.uid());
    Ok(())
}

/// Another client creates the claim while the POST of Volume Warden is held: the pod uses that
/// claim, and no Event reports a failure.
#[tokio::test]
async fn a_claim_that_another_client_creates_first_is_no_failure() -> Result<()> {
    let fixture = FaultFixture::new("first").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    let held = fixture.interposer.add(claim_posts().hold());
    pod_space.request_claim("pod", "data", json!({})).await?;
    held.held(1).await?;
    let first = pod_space.create_claim("data", json!({})).await?;
    drop(held);
    pod_space
        .has_event("pod", "ClaimShared", "it has no owner")
        .await?;
    pod_space.wait_until_processed().await?;
    let mut events = pod_space.pod_events("pod").await?;
    // On a busy machine the held POST may have timed out before the other client created the
    // claim.
    events.retain(|(_, message)| !message.contains("the API server did not answer"));
    assert_eq!(events.len(), 1, "{events:?}");
    let mut codes = pod_space.creation_codes()?;
    codes.retain(|code| *code != 201);
    ensure!(codes.is_empty() || codes == [409], "{codes:?}");
    assert_eq!(pod_space.claim("data").await?.uid(), first.uid());
    Ok(())
}

/// DP-18: the claim is created as soon as the old claim is deleted, without a change of the pod.
#[tokio::test]
async fn a_claim_that_is_being_deleted_is_recreated() -> Result<()> {
    let fixture = FaultFixture::new("stale").await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let _warden = fixture.start().await?;
    let held =
        json!({"metadata": {"finalizers": ["example.com/hold", "kubernetes.io/pvc-protection"]}});
    let old = pod_space.create_claim("data", held).await?;
    space.delete_claim("data").await?;
    // pvc-protection reads the same watch: without this wait, the pod may be handled before the
    // deletion is known.
    eventually("Volume Warden knows of the deletion", async || {
        let finalizers = pod_space.claim("data").await?.metadata.finalizers;
        anyhow::Ok(finalizers.unwrap_or_default() == ["example.com/hold"])
    })
    .await?;
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    pod_space
        .has_event("pod", "ClaimTerminating", "\"data\"")
        .await?;
    pod_space.wait_until_processed().await?;
    let posts = fixture.posts();
    space
        .patch_claim("data", json!({"metadata": {"finalizers": null}}))
        .await?;
    let new = pod_space.belongs("data", &pod).await?;
    ensure!(new.uid() != old.uid(), "{new:?}");
    pod_space
        .has_event("pod", "PVCProvisioned", "\"data\"")
        .await?;
    assert_eq!(
        (pod_space.pod_events("pod").await?.len(), fixture.posts()),
        (2, posts + 1)
    );
    Ok(())
}

/// B-DP-13: a claim that a user deletes while the pod is pending is recreated.
#[tokio::test]
async fn a_claim_that_a_user_deletes_is_recreated() -> Result<()> {
    let fixture = FaultFixture::new("deleted").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    let first = pod_space.belongs("data", &pod).await?;
    pod_space.space.delete_claim("data").await?;
    eventually("the claim is recreated", async || {
        anyhow::Ok(pod_space.claim("data").await?.uid() != first.uid())
    })
    .await?;
    pod_space.belongs("data", &pod).await?;
    Ok(())
}

/// DP-24: the claim exhausts the quota, so another POST of the claim would be refused. Neither
/// changes of the pod nor a restart of Volume Warden cause such a POST or another Event.
#[tokio::test]
async fn a_quota_that_the_claim_itself_exhausts_is_no_failure() -> Result<()> {
    let fixture = FaultFixture::new("exhausted").await?;
    let pod_space = &fixture.pod_space;
    let warden = fixture.start().await?;
    let quota = Quota::new(pod_space, json!({"persistentvolumeclaims": "1"})).await?;
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    pod_space.belongs("data", &pod).await?;
    pod_space
        .has_event("pod", "PVCProvisioned", "\"data\"")
        .await?;
    let codes = || {
        let mut codes = pod_space.creation_codes()?;
        // An update of the usage of the quota may cause a conflict, after which Volume Warden
        // retries at once.
        codes.retain(|code| *code != 409);
        anyhow::Ok(codes)
    };
    assert_eq!(codes()?, [201]);
    for round in 0..3 {
        let condition = json!({"type": "Round", "status": "False", "message": round.to_string()});
        pod_space
            .space
            .patch_pod_status("pod", json!({"conditions": [condition]}))
            .await?;
        // The template changes as well, which triggers a reconcile.
        let edited = format!("{}# {round}\n", TEMPLATE);
        pod_space
            .patch_pod("pod", annotations(&[("data.pvc", Some(&edited))]))
            .await?;
    }
    pod_space.wait_for_watches().await?;
    drop(warden);
    let _restarted = fixture.start().await?;
    pod_space.wait_for_watches().await?;
    quota.delete().await?;
    pod_space.wait_until_processed().await?;
    assert_eq!(codes()?, [201, 201], "the claim and the canary's claim");
    assert_eq!(pod_space.pod_events("pod").await?.len(), 1);
    Ok(())
}
