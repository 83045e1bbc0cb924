//! Volumes that are deleted with their data: at the end of the window, or at once.

use super::support::{PURGE, Shelf, file, uid_of_claim};
use crate::support::guarded;
use anyhow::{Result, ensure};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

#[tokio::test]
async fn a_volume_is_purged_when_its_window_ends() -> Result<()> {
    let shelf = Shelf::new(guarded().await?, "purge-due", "1s").await?;
    let volume = shelf.bound("data", json!({})).await?;
    let volume = shelf.is_enabled(&volume.name_any()).await?;
    shelf
        .space
        .claims
        .delete("data", &DeleteParams::default())
        .await?;
    shelf.is_purged(&volume).await
}

#[tokio::test]
async fn a_user_purges_a_volume_at_once_but_not_for_another_claim() -> Result<()> {
    let shelf = Shelf::new(guarded().await?, "purge-now", "1h").await?;
    let (volumes, parameters) = (&shelf.space.volumes, PatchParams::default());
    let volume = shelf.deleted("data", "old").await?;
    let purge = async |uid: &str| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {PURGE: uid}}}));
        volumes.patch(&volume.name_any(), &parameters, &patch).await
    };
    purge("another").await?;
    // A second volume is restored after this change, so it has been processed.
    shelf.deleted("canary", "new").await?;
    shelf.restored("canary", "canary").await?;
    shelf.volume_of("canary").await?;
    ensure!(file(&shelf.is_in_trash(&volume.name_any()).await?)?.exists());
    purge(uid_of_claim(&volume)).await?;
    shelf.is_purged(&volume).await
}
