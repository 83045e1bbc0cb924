//! Deleted claims that are restored with their data.

use super::support::{TrashSpace, WINDOW, file, record, uid_of_claim};
use crate::support::{create_namespace, guarded, refusal};
use anyhow::{Context, Result, ensure};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use std::fs;
use volume_warden_controlplane::eventually;

#[tokio::test]
async fn a_claim_gets_its_data_back_and_a_later_deletion_a_full_window() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "restore", "1h").await?;
    let volume = trash_space.deleted("data", "kept").await?;
    let name = volume.name_any();
    let events = eventually("the Event says how to restore the claim", async || {
        let events = trash_space.space.events_with("MovedToTrash").await?;
        anyhow::Ok((!events.is_empty()).then_some(events))
    })
    .await?;
    let note = events[0].message.as_deref().unwrap_or_default();
    let command = format!(
        "volume-warden undelete pvc data -n {}",
        trash_space.space.name
    );
    ensure!(note.contains(&command), "{note}");

    let mut uids = vec![uid_of_claim(&volume).to_owned()];
    for requested in ["data", &name] {
        let created = trash_space.restored(requested, "data").await?;
        uids.push(created.metadata.uid.context("no uid")?);
        let restored = trash_space.volume_of("data").await?;
        assert_eq!(restored.name_any(), name);
        assert_eq!(fs::read_to_string(file(&restored)?)?, "kept");
        let enabled = trash_space.is_enabled(&name).await?;
        ensure!(record(&enabled)?["deletedAt"].is_null());
        assert_eq!(
            record(&enabled)?["claim"]["uid"].as_str(),
            uids.last().map(String::as_str)
        );
        trash_space.delete("data", &enabled).await?;
    }
    trash_space.nothing_was_at_risk().await
}

#[tokio::test]
async fn one_of_two_claims_gets_the_data() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "restore-two", "1h").await?;
    let volume = trash_space.deleted("data", "kept").await?.name_any();
    let names = ["one", "two"];
    let [one, two] = names.map(|name| trash_space.undelete("data", name));
    let (one, two) = tokio::join!(one, two);
    // The volume may be reserved for the first claim before the webhook reviews the second.
    let stored = [one?.is_ok(), two?.is_ok()]
        .iter()
        .filter(|stored| **stored)
        .count();
    ensure!(stored >= 1);
    eventually("one of the claims is bound to the volume", async || {
        let found = trash_space.space.volumes.get(&volume).await?;
        let claim = found
            .spec
            .and_then(|spec| spec.claim_ref)
            .and_then(|claim| claim.name);
        ensure!(
            claim.as_deref().is_some_and(|claim| names.contains(&claim)),
            "{claim:?}"
        );
        anyhow::Ok(())
    })
    .await?;
    trash_space.is_enabled(&volume).await?;
    trash_space.nothing_was_at_risk().await
}

#[tokio::test]
async fn a_namespace_of_the_same_name_gets_nothing() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "restore-namespace", "1h").await?;
    let (name, client) = (&trash_space.space.name, trash_space.space.cluster.client());
    let volume = trash_space.bound("data", json!({})).await?.name_any();
    trash_space.is_enabled(&volume).await?;
    trash_space.space.delete_namespace().await?;
    trash_space.is_in_trash(&volume).await?;
    create_namespace(&client, name).await?;
    // The message is the same in all cases, so users do not learn which claims existed before.
    for requested in ["data", &volume, "other"] {
        let message = refusal(trash_space.undelete(requested, "data").await?)?;
        let expected = format!("no deleted claim {requested:?} of the namespace {name}");
        ensure!(message.contains(&expected), "{message}");
        ensure!(
            message.contains("only an administrator can restore it"),
            "{message}"
        );
    }
    Ok(())
}

/// The claim that requested the data is deleted before it is Bound.
#[tokio::test]
async fn a_volume_whose_new_claim_disappears_is_in_the_trash_again() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "restore-back", "1h").await?;
    let volume = trash_space.deleted("data", "kept").await?;
    for _ in 0..5 {
        // If the claim is Bound before its deletion, its volume enters the trash like any other.
        trash_space.restored(&volume.name_any(), "again").await?;
        trash_space
            .space
            .claims
            .delete("again", &DeleteParams::default())
            .await?;
        trash_space.space.claim_is_gone("again").await?;
        trash_space.is_in_trash(&volume.name_any()).await?;
    }
    trash_space.restored(&volume.name_any(), "data").await?;
    let restored = trash_space.volume_of("data").await?;
    assert_eq!(fs::read_to_string(file(&restored)?)?, "kept");
    trash_space.nothing_was_at_risk().await
}

#[tokio::test]
async fn a_restored_claim_has_its_labels_and_annotations() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "restore-labels", "1h").await?;
    let metadata = json!({"metadata": {
        "labels": {"app": "photos"},
        "annotations": {"example.com/note": "kept", WINDOW: "30m"},
    }});
    let volume = trash_space.bound("data", metadata).await?;
    let enabled = trash_space.is_enabled(&volume.name_any()).await?;
    trash_space.delete("data", &enabled).await?;
    let created = trash_space.restored("data", "data").await?;
    assert_eq!(
        created.labels().get("app").map(String::as_str),
        Some("photos")
    );
    let annotations = created.annotations();
    let note = annotations.get("example.com/note").map(String::as_str);
    assert_eq!(note, Some("kept"));
    let excluded = annotations
        .keys()
        .filter(|key| key.contains("kubernetes.io/") || *key == WINDOW);
    assert_eq!(excluded.count(), 0, "{annotations:?}");
    assert_eq!(
        trash_space.volume_of("data").await?.name_any(),
        volume.name_any()
    );
    trash_space.nothing_was_at_risk().await
}
