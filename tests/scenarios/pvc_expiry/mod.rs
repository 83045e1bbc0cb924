//! Unused claims that expire into the trash. Their age is a second, and the test announces an earlier
//! time than the week that Volume Warden announces.

mod undelete;

use crate::{
    pvc_trash::support::{Shelf, WINDOW, file, uid_of_claim},
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

/// A claim that is due is deleted after two looks, a minute apart.
pub const EXPIRES_WITHIN: Duration = Duration::from_secs(240);

/// A class whose unused claims expire after a second, into a trash of an hour.
async fn shelf(label: &str) -> Result<Shelf> {
    let annotations = json!({WINDOW: "1h", EXPIRE_UNUSED: "1s"});
    let changes = json!({"metadata": {"annotations": annotations}});
    Shelf::with_class(optional().await?, label, changes).await
}

/// When the claim was announced to expire.
pub async fn announced(shelf: &Shelf, claim: &str) -> Result<Timestamp> {
    eventually(&format!("{claim} is announced to expire"), async || {
        let claim = shelf.space.claims.get(claim).await?;
        let at = claim
            .annotations()
            .get(EXPIRES_AT)
            .context("not announced")?;
        anyhow::Ok(Some(at.parse::<Timestamp>()?))
    })
    .await
}

/// Lets the claim expire as soon as Volume Warden has looked at it twice.
pub async fn hasten(shelf: &Shelf, claim: &str) -> Result<()> {
    let at = Timestamp::now() + SignedDuration::from_secs(2);
    let patch = json!({"metadata": {"annotations": {EXPIRES_AT: at.to_string()}}});
    shelf.space.patch_claim(claim, patch).await
}

async fn is_not_announced(shelf: &Shelf, claim: &str) -> Result<()> {
    eventually(&format!("{claim} is not announced"), async || {
        let claim = shelf.space.claims.get(claim).await?;
        ensure!(!claim.annotations().contains_key(EXPIRES_AT));
        anyhow::Ok(())
    })
    .await
}

/// A Deployment without a pod that names the claim.
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
async fn an_unused_claim_expires_and_its_data_comes_back() -> Result<()> {
    let shelf = shelf("expiry").await?;
    let volume = shelf.bound("data", json!({})).await?;
    fs::write(file(&volume)?, "kept")?;
    let at = announced(&shelf, "data").await?;
    let notice = at.duration_since(Timestamp::now());
    ensure!(notice > SignedDuration::from_hours(6 * 24 + 23), "{notice}");
    let events = eventually("it is announced by an Event", async || {
        let events = shelf.space.events_with("ExpiringUnused").await?;
        anyhow::Ok((!events.is_empty()).then_some(events))
    })
    .await?;
    let note = events[0].message.as_deref().unwrap_or_default();
    ensure!(
        note.contains(&at.to_string()) && note.contains("expire-unused=off"),
        "{note}"
    );

    hasten(&shelf, "data").await?;
    // Beside it, claims that do not expire although they are due in the same minute.
    shelf.bound("named", json!({})).await?;
    // The Deployment follows, because an announcement may rest on a list of Deployments from before
    // it, and then the claim would be announced once more after an early cancellation.
    announced(&shelf, "named").await?;
    let deployments: Api<Deployment> =
        Api::namespaced(shelf.space.cluster.client(), &shelf.space.name);
    let parameters = PostParams::default();
    deployments
        .create(&parameters, &scaled_to_zero("named")?)
        .await?;
    hasten(&shelf, "named").await?;
    let kept = json!({"metadata": {"annotations": {EXPIRE_UNUSED: "off"}}});
    shelf.bound("kept", kept).await?;
    eventually_within(EXPIRES_WITHIN, "the claim is deleted", async || {
        let found = shelf.space.claims.get_opt("data").await?;
        ensure!(found.is_none_or(|found| found.metadata.deletion_timestamp.is_some()));
        anyhow::Ok(())
    })
    .await?;
    shelf.is_in_trash(&volume.name_any()).await?;
    is_not_announced(&shelf, "named").await?;
    for claim in ["named", "kept"] {
        let claim = shelf.space.claims.get(claim).await?;
        ensure!(claim.metadata.deletion_timestamp.is_none(), "{claim:?}");
    }
    shelf.restored("data", "data").await?;
    let restored = shelf.volume_of("data").await?;
    assert_eq!(restored.name_any(), volume.name_any());
    assert_ne!(uid_of_claim(&restored), uid_of_claim(&volume));
    assert_eq!(fs::read_to_string(file(&restored)?)?, "kept");
    shelf.nothing_was_at_risk().await
}

#[tokio::test]
async fn a_pod_that_names_the_claim_cancels_its_expiry() -> Result<()> {
    let shelf = shelf("expiry-used").await?;
    shelf.bound("data", json!({})).await?;
    announced(&shelf, "data").await?;
    // It waits for a node that does not exist.
    let waits = json!({"spec": {"nodeSelector": {"example.com/none": "here"}}});
    shelf.space.create_pod("late", "data", waits).await?;
    is_not_announced(&shelf, "data").await?;
    let claim = shelf.space.claims.get("data").await?;
    ensure!(claim.metadata.deletion_timestamp.is_none(), "{claim:?}");
    shelf.space.delete_pod("late").await?;
    announced(&shelf, "data").await.map(drop)
}

#[tokio::test]
async fn without_a_window_nothing_expires_and_an_event_says_so() -> Result<()> {
    let annotations = json!({"metadata": {"annotations": {EXPIRE_UNUSED: "1s"}}});
    let shelf = Shelf::with_class(optional().await?, "expiry-never", annotations).await?;
    shelf.bound("data", json!({})).await?;
    let events = eventually("an Event says why", async || {
        let events = shelf.space.events_with("ErrExpiry").await?;
        anyhow::Ok((!events.is_empty()).then_some(events))
    })
    .await?;
    let note = events[0].message.as_deref().unwrap_or_default();
    ensure!(note.contains(WINDOW), "{note}");
    is_not_announced(&shelf, "data").await
}
