//! Unused claims that expire, and whose volumes are then in the trash. Claims expire after they are
//! unused for a second. Volume Warden announces the deletion a week before; the tests change the
//! announced time to an earlier one.

mod undelete;

use crate::{
    pvc_trash::support::{TrashSpace, WINDOW, file, uid_of_claim},
    support::optional,
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::apps::v1::Deployment,
    jiff::{SignedDuration, Timestamp},
};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::{Value, json};
use std::{fs, time::Duration};
use volume_warden_controlplane::{eventually, eventually_within};

pub const EXPIRE_UNUSED: &str = "volume-warden.dev/expire-unused";
pub const EXPIRES_AT: &str = "volume-warden.dev/expires-at";

/// Volume Warden deletes a claim after it has checked it twice, a minute apart.
pub const EXPIRES_WITHIN: Duration = Duration::from_secs(240);

/// A class whose unused claims expire after a second, with an undelete window of an hour.
async fn trash_space(label: &str) -> Result<TrashSpace> {
    let annotations = json!({WINDOW: "1h", EXPIRE_UNUSED: "1s"});
    let changes = json!({"metadata": {"annotations": annotations}});
    TrashSpace::with_class(optional().await?, label, changes).await
}

/// Waits until the expiry of the claim is announced, and returns the announced time.
pub async fn announced(trash_space: &TrashSpace, claim: &str) -> Result<Timestamp> {
    eventually(&format!("{claim} is announced to expire"), async || {
        let claim = trash_space.space.claims.get(claim).await?;
        let at = claim
            .annotations()
            .get(EXPIRES_AT)
            .context("not announced")?;
        anyhow::Ok(Some(at.parse::<Timestamp>()?))
    })
    .await
}

/// Sets the announced time to the near future, so that Volume Warden deletes the claim once it has
/// checked it twice.
pub async fn hasten(trash_space: &TrashSpace, claim: &str) -> Result<()> {
    let at = Timestamp::now() + SignedDuration::from_secs(2);
    let patch = json!({"metadata": {"annotations": {EXPIRES_AT: at.to_string()}}});
    trash_space.space.patch_claim(claim, patch).await
}

async fn is_not_announced(trash_space: &TrashSpace, claim: &str) -> Result<()> {
    eventually(&format!("{claim} is not announced"), async || {
        let claim = trash_space.space.claims.get(claim).await?;
        ensure!(!claim.annotations().contains_key(EXPIRES_AT));
        anyhow::Ok(())
    })
    .await
}

/// A Deployment with no replicas whose pod template names the claim.
fn scaled_to_zero(claim: &str) -> Result<Deployment> {
    let labels = json!({"app": "shop"});
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    let deployment: Value = json!({"metadata": {"name": "shop"}, "spec": {
        "replicas": 0, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {
            "containers": [{"name": "main", "image": "main"}], "volumes": volumes}}}});
    Ok(serde_json::from_value(deployment)?)
}

#[tokio::test]
async fn an_unused_claim_expires_and_is_restored_with_its_data() -> Result<()> {
    let trash_space = trash_space("expiry").await?;
    let volume = trash_space.bound("data", json!({})).await?;
    fs::write(file(&volume)?, "kept")?;
    let at = announced(&trash_space, "data").await?;
    let notice = at.duration_since(Timestamp::now());
    ensure!(notice > SignedDuration::from_hours(6 * 24 + 23), "{notice}");
    let events = eventually("an Event announces the expiry", async || {
        let events = trash_space.space.events_with("ExpiringUnused").await?;
        anyhow::Ok((!events.is_empty()).then_some(events))
    })
    .await?;
    let note = events[0].message.as_deref().unwrap_or_default();
    ensure!(
        note.contains(&at.to_string()) && note.contains("expire-unused=off"),
        "{note}"
    );

    hasten(&trash_space, "data").await?;
    // Two more claims do not expire: a Deployment names `named`, although it is due in the same
    // minute, and `kept` is annotated with `off`.
    trash_space.bound("named", json!({})).await?;
    // The Deployment is created after the announcement. Otherwise the announcement may be based on
    // an older list of Deployments, and the claim would be announced again after an early
    // cancellation.
    announced(&trash_space, "named").await?;
    let deployments: Api<Deployment> =
        Api::namespaced(trash_space.space.cluster.client(), &trash_space.space.name);
    let parameters = PostParams::default();
    deployments
        .create(&parameters, &scaled_to_zero("named")?)
        .await?;
    hasten(&trash_space, "named").await?;
    let kept = json!({"metadata": {"annotations": {EXPIRE_UNUSED: "off"}}});
    let kept = trash_space.bound("kept", kept).await?;
    trash_space.is_enabled(&kept.name_any()).await?;
    // Without its annotation, `kept` would be announced before this later claim.
    trash_space.bound("later", json!({})).await?;
    announced(&trash_space, "later").await?;
    eventually_within(EXPIRES_WITHIN, "the claim is deleted", async || {
        let found = trash_space.space.claims.get_opt("data").await?;
        ensure!(found.is_none_or(|found| found.metadata.deletion_timestamp.is_some()));
        anyhow::Ok(())
    })
    .await?;
    trash_space.is_in_trash(&volume.name_any()).await?;
    is_not_announced(&trash_space, "named").await?;
    let named = trash_space.space.claims.get("named").await?;
    ensure!(named.metadata.deletion_timestamp.is_none(), "{named:?}");
    let kept = trash_space.space.claims.get("kept").await?;
    ensure!(!kept.annotations().contains_key(EXPIRES_AT), "{kept:?}");
    ensure!(kept.metadata.deletion_timestamp.is_none(), "{kept:?}");
    trash_space.restored("data", "data").await?;
    let restored = trash_space.volume_of("data").await?;
    assert_eq!(restored.name_any(), volume.name_any());
    assert_ne!(uid_of_claim(&restored), uid_of_claim(&volume));
    assert_eq!(fs::read_to_string(file(&restored)?)?, "kept");
    trash_space.nothing_was_at_risk().await
}

#[tokio::test]
async fn a_pod_that_names_the_claim_cancels_its_expiry() -> Result<()> {
    let trash_space = trash_space("expiry-used").await?;
    trash_space.bound("data", json!({})).await?;
    announced(&trash_space, "data").await?;
    // The pod stays Pending: no node matches its selector.
    let waits = json!({"spec": {"nodeSelector": {"example.com/none": "here"}}});
    trash_space.space.create_pod("late", "data", waits).await?;
    is_not_announced(&trash_space, "data").await?;
    let claim = trash_space.space.claims.get("data").await?;
    ensure!(claim.metadata.deletion_timestamp.is_none(), "{claim:?}");
    trash_space.space.delete_pod("late").await?;
    announced(&trash_space, "data").await.map(drop)
}

#[tokio::test]
async fn without_an_undelete_window_no_claim_expires_and_an_event_reports_it() -> Result<()> {
    let annotations = json!({"metadata": {"annotations": {EXPIRE_UNUSED: "1s"}}});
    let trash_space =
        TrashSpace::with_class(optional().await?, "expiry-never", annotations).await?;
    trash_space.bound("data", json!({})).await?;
    let events = eventually("an Event reports the reason", async || {
        let events = trash_space.space.events_with("ErrExpiry").await?;
        anyhow::Ok((!events.is_empty()).then_some(events))
    })
    .await?;
    let note = events[0].message.as_deref().unwrap_or_default();
    ensure!(note.contains(WINDOW), "{note}");
    let claim = trash_space.space.claims.get("data").await?;
    ensure!(!claim.annotations().contains_key(EXPIRES_AT), "{claim:?}");
    Ok(())
}
