//! Volumes that are purged, which deletes their data: at the end of the window, or on request.

use super::support::{PURGE, TrashSpace, file, uid_of_claim};
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
    let trash_space = TrashSpace::new(guarded().await?, "purge-due", "1s").await?;
    let volume = trash_space.bound("data", json!({})).await?;
    let volume = trash_space.is_enabled(&volume.name_any()).await?;
    trash_space
        .space
        .claims
        .delete("data", &DeleteParams::default())
        .await?;
    trash_space.is_purged(&volume).await
}

#[tokio::test]
async fn a_user_purges_a_volume_at_once_but_not_for_another_claim() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "purge-now", "1h").await?;
    let (volumes, parameters) = (&trash_space.space.volumes, PatchParams::default());
    let volume = trash_space.deleted("data", "old").await?;
    let purge = async |uid: &str| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {PURGE: uid}}}));
        volumes.patch(&volume.name_any(), &parameters, &patch).await
    };
    purge("another").await?;
    // A second volume is deleted and restored after this change, so the change has been processed.
    trash_space.deleted("canary", "new").await?;
    trash_space.restored("canary", "canary").await?;
    trash_space.volume_of("canary").await?;
    ensure!(file(&trash_space.is_in_trash(&volume.name_any()).await?)?.exists());
    purge(uid_of_claim(&volume)).await?;
    trash_space.is_purged(&volume).await
}

/// An administrator has created another volume with the same directory, to recover the data.
#[tokio::test]
async fn a_volume_whose_data_another_volume_has_is_not_purged() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "purge-shared", "1h").await?;
    let volumes = &trash_space.space.volumes;
    let kept = trash_space.deleted("data", "precious").await?;
    let host_path = kept.spec.as_ref().and_then(|spec| spec.host_path.clone());
    let copy = json!({"spec": {"hostPath": host_path, "persistentVolumeReclaimPolicy": "Retain"}});
    let copy = volume(&format!("{}-copy", trash_space.space.name), copy)?;
    volumes.create(&PostParams::default(), &copy).await?;
    let purge = json!({"metadata": {"annotations": {PURGE: uid_of_claim(&kept)}}});
    let name = kept.name_any();
    volumes
        .patch(&name, &PatchParams::default(), &Patch::Merge(purge))
        .await?;
    let events: Api<Event> = Api::all(trash_space.space.cluster.client());
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
    let kept = trash_space.is_in_trash(&name).await?;
    ensure!(std::fs::read_to_string(file(&kept)?)? == "precious");
    volumes
        .delete(&copy.name_any(), &DeleteParams::default())
        .await?;
    Ok(())
}
