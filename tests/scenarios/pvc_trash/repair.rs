//! `volume-warden trash repair`, which recreates volumes whose objects were deleted by force.

use super::{
    copies::{NAMESPACE, has_copy_with, has_no_copy},
    support::{TrashSpace, file, uid_of_claim},
};
use crate::support::{
    BINARY, installed, refusal, run,
    shared::{Running, Shared, Slot},
    volume, webhook_timeouts,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::fs;
use volume_warden_controlplane::{Warden, eventually};

/// A cluster in which an administrator has deleted the binding of the policy that refuses the
/// deletion of volumes with a record.
async fn unprotected() -> Result<Shared> {
    static UNPROTECTED: Slot = Slot::new();
    let start = async || {
        let cluster = installed("unprotected", "manifests").await?;
        let policy = "validatingadmissionpolicybinding/volume-warden-trash";
        cluster.kubectl(&["delete", policy]).await?;
        webhook_timeouts::raise_webhook_timeouts(&cluster, None).await?;
        let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
        anyhow::Ok(Running::with(cluster, warden))
    };
    UNPROTECTED.get(start).await
}

/// Deletes the object of a volume and removes its finalizers, once the volume has a copy.
async fn delete_by_force(trash_space: &TrashSpace, volume: &PersistentVolume) -> Result<()> {
    let (name, volumes) = (volume.name_any(), &trash_space.space.volumes);
    let uid = uid_of_claim(volume);
    has_copy_with(&trash_space.space, NAMESPACE, volume, uid).await?;
    eventually(&format!("{name} is deleted"), async || {
        let deleted = volumes.delete(&name, &DeleteParams::default()).await;
        let no_finalizers = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let patched = volumes
            .patch(&name, &PatchParams::default(), &no_finalizers)
            .await;
        let found = volumes.get_opt(&name).await?;
        ensure!(found.is_none(), "{deleted:?} {patched:?}");
        Ok(())
    })
    .await
}

/// Runs `volume-warden trash repair` with these arguments.
async fn repair(trash_space: &TrashSpace, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let command = [&["trash", "repair"][..], arguments].concat();
    run(&trash_space.space.cluster, &command).await
}

/// Saves the copy and applies it again, as the page about the uninstallation describes. Between the
/// two, an uninstallation deletes the namespace of the copy, and this function only the copy.
/// Without the copy, the command fails.
async fn save_and_apply_copy(trash_space: &TrashSpace, volume: &PersistentVolume) -> Result<()> {
    let cluster = &trash_space.space.cluster;
    let name = format!("volume-warden-trash-{}", volume.uid().unwrap_or_default());
    let only = format!("--field-selector=metadata.name={name}");
    let selector = "volume-warden.dev/saved-volume";
    let get = [
        "-n",
        NAMESPACE,
        "get",
        "configmap",
        "-l",
        selector,
        &only,
        "-o",
        "yaml",
    ];
    let saved = cluster.kubectl(&get).await?;
    let delete = ["-n", NAMESPACE, "delete", "configmap", &name];
    cluster.kubectl(&delete).await?;
    let (code, listed) = repair(trash_space, &["--dry-run", &volume.name_any()]).await?;
    ensure!(
        code == Some(1),
        "the command did not fail without a copy: {listed}"
    );
    cluster
        .kubectl_with_stdin(&["apply", "-f", "-"], &saved)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_removed_volume_of_a_deleted_claim_is_repaired_and_restored() -> Result<()> {
    let trash_space = TrashSpace::new(unprotected().await?, "repair-trash", "1h").await?;
    let before = trash_space.deleted("data", "kept").await?;
    let name = before.name_any();
    delete_by_force(&trash_space, &before).await?;
    save_and_apply_copy(&trash_space, &before).await?;
    let (code, listed) = repair(&trash_space, &["--dry-run", &name]).await?;
    let claim = format!("{}/data", trash_space.space.name);
    ensure!(code == Some(0) && listed.contains(&claim), "{listed}");
    ensure!(trash_space.space.volumes.get_opt(&name).await?.is_none());
    // Volume Warden's service account may not create volumes: the user needs that permission.
    let server = "--as=system:serviceaccount:volume-warden:volume-warden";
    let (code, refused) = repair(&trash_space, &["--yes", &name, server]).await?;
    ensure!(
        code == Some(1) && refused.contains("cannot create"),
        "{refused}"
    );

    let (code, printed) = repair(&trash_space, &["--yes", &name]).await?;
    ensure!(code == Some(0), "{printed}");
    let recreated = trash_space.is_in_trash(&name).await?;
    ensure!(
        recreated.uid() != before.uid(),
        "the volume was not recreated"
    );
    has_no_copy(&trash_space.space, &before).await?;
    has_copy_with(
        &trash_space.space,
        NAMESPACE,
        &recreated,
        uid_of_claim(&before),
    )
    .await?;
    let (code, printed) = repair(&trash_space, &["--yes", &name]).await?;
    ensure!(
        code == Some(1) && printed.contains("no volume"),
        "{printed}"
    );
    trash_space.restored("data", "data").await?;
    let restored = trash_space.volume_of("data").await?;
    assert_eq!(fs::read_to_string(file(&restored)?)?, "kept");
    trash_space.nothing_was_at_risk().await
}

/// The claim is Lost until the volume is repaired.
#[tokio::test]
async fn a_removed_volume_of_a_claim_is_bound_to_it_again() -> Result<()> {
    let trash_space = TrashSpace::new(unprotected().await?, "repair-bound", "1h").await?;
    let before = trash_space.bound("data", json!({})).await?;
    fs::write(file(&before)?, "kept")?;
    let before = trash_space.is_enabled(&before.name_any()).await?;
    delete_by_force(&trash_space, &before).await?;
    eventually("the claim is Lost", async || {
        let claim = trash_space.space.claims.get("data").await?;
        let phase = claim.status.and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Lost"), "{phase:?}");
        Ok(())
    })
    .await?;
    let (code, printed) = repair(&trash_space, &["--yes", &before.name_any()]).await?;
    ensure!(code == Some(0), "{printed}");
    let recreated = trash_space.volume_of("data").await?;
    ensure!(recreated.name_any() == before.name_any() && recreated.uid() != before.uid());
    assert_eq!(fs::read_to_string(file(&recreated)?)?, "kept");
    trash_space.nothing_was_at_risk().await
}

#[tokio::test]
async fn a_removed_volume_whose_storage_another_one_has_is_not_repaired() -> Result<()> {
    let trash_space = TrashSpace::new(unprotected().await?, "repair-twice", "1h").await?;
    let before = trash_space.deleted("data", "kept").await?;
    let (name, volumes) = (before.name_any(), &trash_space.space.volumes);
    delete_by_force(&trash_space, &before).await?;
    let path = file(&before)?
        .parent()
        .map(|path| path.display().to_string());
    let other = format!("other-{}", trash_space.space.name);
    let other = volume(&other, json!({"spec": {"hostPath": {"path": path}}}))?;
    volumes.create(&PostParams::default(), &other).await?;
    let (code, printed) = repair(&trash_space, &["--yes", &name]).await?;
    let why = format!("the volume {} has the same storage", other.name_any());
    ensure!(code == Some(1) && printed.contains(&why), "{printed}");
    ensure!(volumes.get_opt(&name).await?.is_none());
    let message = refusal(trash_space.undelete("data", "data").await?)?;
    ensure!(message.contains("no deleted claim"), "{message}");
    Ok(())
}
