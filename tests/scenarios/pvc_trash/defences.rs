//! Requests of users that are refused, because data would be lost or leaked.

use super::support::{TRASH, TrashSpace, UNDELETE};
use crate::support::{bare, claim, dry_run, guarded, refusal};
use anyhow::{Result, ensure};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// The policy also applies to an administrator with all permissions.
#[tokio::test]
async fn volumes_in_the_trash_are_neither_deleted_nor_changed_by_users() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "trash-policy", "1h").await?;
    let (volumes, parameters) = (&trash_space.space.volumes, PatchParams::default());
    let patched = async |name: &str, patch: Value| {
        volumes.patch(name, &parameters, &Patch::Merge(patch)).await
    };
    let bound = trash_space.bound("bound", json!({})).await?.name_any();
    trash_space.is_enabled(&bound).await?;
    let deleted = trash_space.deleted("deleted", "kept").await?.name_any();
    for name in [&bound, &deleted] {
        let message = refusal(volumes.delete(name, &DeleteParams::default()).await)?;
        ensure!(message.contains("volume-warden purge pv"), "{message}");
        for change in [
            json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
            json!({"metadata": {"annotations": {TRASH: null}}}),
            json!({"metadata": {"annotations": {TRASH: "{}"}}}),
        ] {
            let message = refusal(patched(name, change.clone()).await)?;
            ensure!(message.contains("volume-warden"), "{change}: {message}");
        }
        patched(name, json!({"metadata": {"labels": {"team": "a"}}})).await?;
    }
    trash_space.nothing_was_at_risk().await
}

/// If the webhook is not called, the claim would get an empty volume, so a policy refuses it.
#[tokio::test]
async fn a_claim_that_requests_data_without_a_volume_is_refused() -> Result<()> {
    let trash_space = TrashSpace::new(bare().await?, "trash-missed", "1h").await?;
    let annotations = json!({"metadata": {"annotations": {UNDELETE: "data"}}});
    let wanted = claim("data", annotations)?;
    // The API server begins to apply a policy some time after it was created.
    eventually("the claim is refused", async || {
        let created = trash_space.space.claims.create(&dry_run(), &wanted).await;
        let message = refusal(created)?;
        ensure!(message.contains("volumeName"), "{message}");
        anyhow::Ok(())
    })
    .await
}
