//! Copies of a claim do not keep its mark, and no update by a user adds it.

use super::support::{MARK, RETAIN_DELETE, SetSpace};
use crate::support::{claim, dry_run, guarded};
use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// A user creates a claim for later from the manifest of one that is in range: with the mark the
/// copy would be deleted at once.
#[tokio::test]
async fn a_copy_of_a_marked_claim_has_no_mark() -> Result<()> {
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
    eventually("the copy is created without the mark", async || {
        let born = sets.space.claims.create(&dry_run(), &copy).await?;
        let annotations = born.metadata.annotations.unwrap_or_default();
        ensure!(annotations.contains_key("example.com/kept"));
        ensure!(!annotations.contains_key(MARK), "{annotations:?}");
        Ok(())
    })
    .await
}

/// A GitOps controller applies the copied manifest to the existing claim again and again.
#[tokio::test]
async fn an_update_gives_a_claim_no_mark() -> Result<()> {
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
    eventually("the update adds all but the mark", async || {
        let patch = Patch::Merge(&copied);
        let updated = claims.patch("data-web-5", &dry_run, &patch).await?;
        let annotations = updated.metadata.annotations.unwrap_or_default();
        ensure!(annotations.contains_key("example.com/kept"));
        ensure!(!annotations.contains_key(MARK), "{annotations:?}");
        Ok(())
    })
    .await
}
