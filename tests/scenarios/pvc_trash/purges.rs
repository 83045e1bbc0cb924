//! Volumes that are purged, which deletes their data: at the end of the window, or on request.

use super::support::{PURGE, Shelf, file, uid_of_claim};
use crate::support::{guarded, volume};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::eventually;

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
    // A second volume is deleted and restored after this change, so the change has been processed.
    shelf.deleted("canary", "new").await?;
    shelf.restored("canary", "canary").await?;
    shelf.volume_of("canary").await?;
    ensure!(file(&shelf.is_in_trash(&volume.name_any()).await?)?.exists());
    purge(uid_of_claim(&volume)).await?;
    shelf.is_purged(&volume).await
}

/// An administrator has created another volume with the same directory, to recover the data.
#[tokio::test]
async fn a_volume_whose_data_another_volume_has_is_not_purged() -> Result<()> {
    let shelf = Shelf::new(guarded().await?, "purge-shared", "1h").await?;
    let volumes = &shelf.space.volumes;
    let kept = shelf.deleted("data", "precious").await?;
    let host_path = kept.spec.as_ref().and_then(|spec| spec.host_path.clone());
    let copy = json!({"spec": {"hostPath": host_path, "persistentVolumeReclaimPolicy": "Retain"}});
    let copy = volume(&format!("{}-copy", shelf.space.name), copy)?;
    volumes.create(&PostParams::default(), &copy).await?;
    let purge = json!({"metadata": {"annotations": {PURGE: uid_of_claim(&kept)}}});
    let name = kept.name_any();
    volumes
        .patch(&name, &PatchParams::default(), &Patch::Merge(purge))
        .await?;
    let events: Api<Event> = Api::all(shelf.space.cluster.client());
    let reason = ListParams::default().fields("reason=NotPurged");
    eventually("an Event names the other volume", async || {
        let found = events.list(&reason).await?.items;
        let about_volume = found
            .iter()
            .find(|event| event.involved_object.name.as_ref() == Some(&name));
        let note = about_volume.and_then(|event| event.message.as_deref());
        ensure!(
            note.is_some_and(|note| note.contains(&copy.name_any())),
            "{note:?}"
        );
        Ok(())
    })
    .await?;
    let kept = shelf.is_in_trash(&name).await?;
    ensure!(std::fs::read_to_string(file(&kept)?)? == "precious");
    volumes
        .delete(&copy.name_any(), &DeleteParams::default())
        .await?;
    Ok(())
}
