//! Users cannot add the marker: the webhook removes it from created and updated claims.

use super::support::{MARK, RETAIN_DELETE, SetSpace};
use crate::support::{claim, dry_run, guarded};
use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// A user creates a claim in advance, for an ordinal that is out of range, from the manifest of a
/// claim that is in range. With the marker, Volume Warden would delete the copy at once.
#[tokio::test]
async fn a_copy_of_a_marked_claim_has_no_marker() -> Result<()> {
    let sets = SetSpace::new(guarded().await?, "copied").await?;
    let set = sets.create("web", 1, RETAIN_DELETE).await?;
    let uid = set.metadata.uid;
    sets.claim_is_marked("data-web-0", uid.as_deref()).await?;
    let annotations = json!({MARK: uid, "example.com/kept": "yes"});
    let copy = claim(
        "data-web-5",
        json!({"metadata": {"annotations": annotations}}),
    )?;
    // On a busy machine the webhook may time out.
    eventually("the copy is created without the marker", async || {
        let created = sets.space.claims.create(&dry_run(), &copy).await?;
        let annotations = created.metadata.annotations.unwrap_or_default();
        ensure!(annotations.contains_key("example.com/kept"));
        ensure!(!annotations.contains_key(MARK), "{annotations:?}");
        Ok(())
    })
    .await
}

/// A GitOps controller applies a manifest with the marker to an existing claim again and again.
/// Each update is made without the marker.
#[tokio::test]
async fn an_update_by_a_user_adds_no_marker() -> Result<()> {
    let sets = SetSpace::new(guarded().await?, "applied").await?;
    let set = sets.create("web", 1, RETAIN_DELETE).await?;
    let uid = set.metadata.uid;
    let kept = claim("data-web-5", json!({}))?;
    let claims = &sets.space.claims;
    claims.create(&PostParams::default(), &kept).await?;
    let copied = json!({"metadata": {"annotations": {MARK: uid, "example.com/kept": "yes"}}});
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    eventually(
        "the update adds the other annotation and no marker",
        async || {
            let patch = Patch::Merge(&copied);
            let updated = claims.patch("data-web-5", &dry_run, &patch).await?;
            let annotations = updated.metadata.annotations.unwrap_or_default();
            ensure!(annotations.contains_key("example.com/kept"));
            ensure!(!annotations.contains_key(MARK), "{annotations:?}");
            Ok(())
        },
    )
    .await
}
