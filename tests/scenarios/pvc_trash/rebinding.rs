//! Claims that are recreated with the same name, in classes with `volume-warden.dev/rebind`: they
//! get the volume of the deleted claim.

use super::{
    enabling::warden,
    support::{TrashSpace, WINDOW, file},
};
use crate::support::{
    claim, create_namespace, dry_run, guarded, quiet,
    sets::{RETAIN_DELETE, set},
    shared::Shared,
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{api::apps::v1::StatefulSet, jiff::Timestamp};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::fs;
use volume_warden_controlplane::eventually;

const REBIND: &str = "volume-warden.dev/rebind";

/// Creates a class in which a claim gets the volume of the deleted claim of the same name.
async fn rebinding(cluster: Shared, label: &str) -> Result<TrashSpace> {
    let annotations = json!({WINDOW: "1h", REBIND: "same-name"});
    let changes = json!({"metadata": {"annotations": annotations}});
    TrashSpace::with_class(cluster, label, changes).await
}

/// The claim is recreated immediately after its deletion, which Volume Warden may not have seen.
#[tokio::test]
async fn a_claim_that_is_created_again_has_its_file() -> Result<()> {
    let trash_space = rebinding(guarded().await?, "rebind").await?;
    let volume = trash_space.bound("data", json!({})).await?;
    fs::write(file(&volume)?, "kept")?;
    for _ in 0..5 {
        trash_space.is_enabled(&volume.name_any()).await?;
        trash_space.space.delete_claim("data").await?;
        trash_space.space.claim_is_gone("data").await?;
        let found = trash_space.bound("data", json!({})).await?;
        assert_eq!(found.name_any(), volume.name_any());
        assert_eq!(fs::read_to_string(file(&found)?)?, "kept");
    }
    let enabled = trash_space.is_enabled(&volume.name_any()).await?;
    trash_space.delete("data", &enabled).await?;
    let off = json!({"metadata": {"annotations": {REBIND: "off"}}});
    let fresh = trash_space.bound("data", off).await?;
    assert_ne!(fresh.name_any(), volume.name_any());
    trash_space.is_in_trash(&volume.name_any()).await?;
    trash_space.nothing_was_at_risk().await
}

/// A claim that named a volume that is too small for it would never be Bound.
#[tokio::test]
async fn a_claim_that_does_not_fit_is_bound_to_a_new_volume() -> Result<()> {
    let trash_space = rebinding(guarded().await?, "rebind-large").await?;
    let volume = trash_space.deleted("data", "kept").await?;
    let large = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let fresh = trash_space.bound("data", large).await?;
    assert_ne!(fresh.name_any(), volume.name_any());
    trash_space.restored(&volume.name_any(), "restored").await?;
    let restored = trash_space.volume_of("restored").await?;
    assert_eq!(fs::read_to_string(file(&restored)?)?, "kept");
    trash_space.nothing_was_at_risk().await
}

#[tokio::test]
async fn the_claim_that_was_deleted_last_counts() -> Result<()> {
    let trash_space = rebinding(guarded().await?, "rebind-last").await?;
    trash_space.deleted("data", "first").await?;
    let off = json!({"metadata": {"annotations": {REBIND: "off"}}});
    let second = trash_space.bound("data", off).await?;
    trash_space.is_enabled(&second.name_any()).await?;
    // The time of a deletion is recorded in seconds.
    let first_deletion = Timestamp::now().as_second();
    eventually("a later second begins", async || {
        ensure!(Timestamp::now().as_second() > first_deletion);
        anyhow::Ok(())
    })
    .await?;
    trash_space.delete("data", &second).await?;
    let found = trash_space.bound("data", json!({})).await?;
    assert_eq!(found.name_any(), second.name_any());
    trash_space.nothing_was_at_risk().await
}

#[tokio::test]
async fn a_namespace_of_the_same_name_gets_a_new_volume() -> Result<()> {
    let trash_space = rebinding(guarded().await?, "rebind-namespace").await?;
    let (name, client) = (&trash_space.space.name, trash_space.space.cluster.client());
    let volume = trash_space.bound("data", json!({})).await?.name_any();
    trash_space.is_enabled(&volume).await?;
    trash_space.space.delete_namespace().await?;
    trash_space.is_in_trash(&volume).await?;
    create_namespace(&client, name).await?;
    let fresh = trash_space.bound("data", json!({})).await?;
    assert_ne!(fresh.name_any(), volume);
    trash_space.is_in_trash(&volume).await?;
    Ok(())
}

/// The scale-down of the StatefulSet deletes the claim, and the scale-up recreates it.
#[tokio::test]
async fn a_set_that_is_scaled_up_again_has_its_file() -> Result<()> {
    let trash_space = rebinding(guarded().await?, "rebind-set").await?;
    let sets: Api<StatefulSet> =
        Api::namespaced(trash_space.space.cluster.client(), &trash_space.space.name);
    let template = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": trash_space.space.name,
        "resources": {"requests": {"storage": "1Gi"}}}}]);
    let changes = json!({"spec": {"volumeClaimTemplates": template}});
    let wanted = set("web", 2, RETAIN_DELETE, changes)?;
    sets.create(&PostParams::default(), &wanted).await?;
    let scale = async |replicas: u8| {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        sets.patch("web", &PatchParams::default(), &patch).await
    };
    eventually("the claim exists", async || {
        trash_space.space.claims.get("data-web-1").await.map(drop)
    })
    .await?;
    let volume = trash_space.volume_of("data-web-1").await?;
    fs::write(file(&volume)?, "kept")?;
    trash_space.is_enabled(&volume.name_any()).await?;
    scale(1).await?;
    trash_space.space.claim_is_gone("data-web-1").await?;
    scale(2).await?;
    eventually("the claim exists again", async || {
        trash_space.space.claims.get("data-web-1").await.map(drop)
    })
    .await?;
    let found = trash_space.volume_of("data-web-1").await?;
    assert_eq!(found.name_any(), volume.name_any());
    assert_eq!(fs::read_to_string(file(&found)?)?, "kept");
    trash_space.nothing_was_at_risk().await
}

/// The API server adds its default class before it calls webhooks.
#[tokio::test]
async fn a_claim_without_a_class_is_rebound_in_the_default_class() -> Result<()> {
    let (cluster, _exclusive) = quiet().await?;
    let trash_space = rebinding(cluster.clone(), "rebind-default").await?;
    let _warden = warden(&trash_space).serving().start().await?;
    let name = &trash_space.space.name;
    let default = "storageclass.kubernetes.io/is-default-class";
    let annotate = async |value: &str| {
        let pair = format!("{default}{value}");
        cluster
            .kubectl(&["annotate", "storageclass", name, &pair])
            .await
    };
    let volume = trash_space.deleted("data", "kept").await?.name_any();
    annotate("=true").await?;
    let created = eventually(
        "the claim of the default class names the volume",
        async || {
            let mut wanted = claim("data", json!({}))?;
            wanted.spec.get_or_insert_default().storage_class_name = None;
            let created = trash_space.space.claims.create(&dry_run(), &wanted).await?;
            let spec = created.spec.as_ref().context("no spec")?;
            ensure!(spec.volume_name.as_deref() == Some(&volume), "{spec:?}");
            anyhow::Ok(Some(created))
        },
    )
    .await;
    annotate("-").await?;
    let class = created?.spec.and_then(|spec| spec.storage_class_name);
    assert_eq!(class.as_deref(), Some(name.as_str()));
    Ok(())
}
