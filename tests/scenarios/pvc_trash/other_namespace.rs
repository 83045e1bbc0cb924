//! `volume-warden undelete --to-namespace`: an administrator restores a claim in another namespace.

use super::support::{TrashSpace, file, record, uid_of_claim};
use crate::support::{Space, create_namespace, guarded, rbac, run};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use std::fs;
use volume_warden_controlplane::eventually;

/// Runs `volume-warden undelete --to-namespace` for the deleted claim `data`.
async fn undelete(
    trash_space: &TrashSpace,
    to: &str,
    arguments: &[&str],
) -> Result<(Option<i32>, String)> {
    let command = [
        "undelete",
        "pvc/data",
        "--to-namespace",
        to,
        "-n",
        &trash_space.space.name,
    ];
    run(
        &trash_space.space.cluster,
        &[&command[..], arguments].concat(),
    )
    .await
}

/// Waits until the record of the volume names the claim, so that the claim can be deleted and
/// restored again, and checks the file on the volume.
async fn is_restored(space: &Space, claim: &str, volume: &PersistentVolume) -> Result<()> {
    let name = volume.name_any();
    eventually(&format!("the trash is enabled for {name}"), async || {
        let found = space.volumes.get(&name).await?;
        let record = record(&found)?;
        let claim = space.claims.get(claim).await?;
        ensure!(record["claim"]["uid"].as_str() == claim.uid().as_deref());
        ensure!(record["claim"]["namespace"] == space.name, "{record}");
        ensure!(record["deletedAt"].is_null(), "{record}");
        assert_eq!(fs::read_to_string(file(&found)?)?, "kept");
        anyhow::Ok(())
    })
    .await
}

#[tokio::test]
async fn a_claim_is_restored_in_another_namespace() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "restore-to", "1h").await?;
    let other = Space::new(trash_space.space.cluster.clone(), "restore-other").await?;
    let volume = trash_space.deleted("data", "kept").await?;
    let (code, printed) = undelete(&trash_space, &other.name, &["--new-name", "copy"]).await?;
    let bound = format!("The claim {}/copy is Bound", other.name);
    ensure!(code == Some(0) && printed.contains(&bound), "{printed}");
    is_restored(&other, "copy", &volume).await?;
    other
        .claims
        .delete("copy", &DeleteParams::default())
        .await?;
    trash_space.is_in_trash(&volume.name_any()).await?;
    trash_space.nothing_was_at_risk().await
}

#[tokio::test]
async fn a_recreated_namespace_gets_the_claims_of_the_deleted_one() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "restore-again", "1h").await?;
    let (name, client) = (&trash_space.space.name, trash_space.space.cluster.client());
    let volume = trash_space.bound("data", json!({})).await?;
    fs::write(file(&volume)?, "kept")?;
    trash_space.is_enabled(&volume.name_any()).await?;
    trash_space.space.delete_namespace().await?;
    trash_space.is_in_trash(&volume.name_any()).await?;
    create_namespace(&client, name).await?;
    let (code, printed) = undelete(&trash_space, name, &[]).await?;
    ensure!(code == Some(0), "{printed}");
    is_restored(&trash_space.space, "data", &volume).await?;
    trash_space.nothing_was_at_risk().await
}

/// The user may create claims in the other namespace, but may not patch volumes: the command
/// creates the claim, cannot assign the volume to it, and deletes the claim.
#[tokio::test]
async fn a_user_who_may_not_patch_volumes_restores_nothing_in_another_namespace() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "restore-tenant", "1h").await?;
    let other = Space::new(trash_space.space.cluster.clone(), "restore-foreign").await?;
    let volume = trash_space.deleted("data", "kept").await?;
    let cluster = &trash_space.space.cluster;
    let tenant = format!("tenant-of-{}", other.name);
    let (client, user) = (cluster.client(), rbac::user(&tenant));
    let rule = rbac::rule(&["get", "list"], "persistentvolumes");
    rbac::create_cluster_role(&client, &tenant, vec![rule]).await?;
    rbac::create_cluster_role_binding(&client, &tenant, &tenant, &user).await?;
    rbac::grant_edit(&other, &tenant).await?;
    eventually("the API server applies the role", async || {
        rbac::is_allowed(&client, &user, "", "list persistentvolumes").await
    })
    .await?;
    let (code, printed) = undelete(&trash_space, &other.name, &["--as", &tenant]).await?;
    ensure!(code == Some(1), "{printed}");
    for words in ["cannot patch", "The claim is deleted again"] {
        ensure!(printed.contains(words), "{words}: {printed}");
    }
    other.claim_is_gone("data").await?;
    let kept = trash_space.is_in_trash(&volume.name_any()).await?;
    assert_eq!(uid_of_claim(&kept), uid_of_claim(&volume));
    Ok(())
}

#[tokio::test]
async fn a_name_that_is_in_use_changes_nothing() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "restore-used", "1h").await?;
    let volume = trash_space.deleted("data", "kept").await?;
    let present = trash_space.create_large_claim("data").await?;
    let name = trash_space.space.name.clone();
    let (code, printed) = undelete(&trash_space, &name, &[]).await?;
    let command = format!(" pvc data -n {name} --to-namespace {name} --new-name NEW");
    ensure!(code == Some(1) && printed.contains(&command), "{printed}");
    trash_space.is_in_trash(&volume.name_any()).await?;
    let found = trash_space.space.claims.get("data").await?;
    assert_eq!(found.uid(), present.uid());
    Ok(())
}
