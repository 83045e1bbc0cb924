//! Every claim that expired can be restored with its data.

use super::{EXPIRES_WITHIN, announced, hasten, trash_space};
use crate::{
    pvc_trash::support::{file, uid_of_claim},
    support::is_soak,
};
use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::ResourceExt;
use serde_json::json;
use std::fs;
use volume_warden_controlplane::eventually_within;

/// How many claims expire: 5, or 100 with `VOLUME_WARDEN_SOAK=1`.
fn count() -> usize {
    if is_soak() { 100 } else { 5 }
}

#[tokio::test]
async fn every_expired_claim_is_restored_with_its_data() -> Result<()> {
    let trash_space = trash_space("expiry-back").await?;
    let names: Vec<String> = (0..count())
        .map(|number| format!("data-{number}"))
        .collect();
    let trash_space = &trash_space;
    let prepared = names.iter().map(|name| async move {
        let volume = trash_space.bound(name, json!({})).await?;
        fs::write(file(&volume)?, name)?;
        announced(trash_space, name).await?;
        anyhow::Ok((name.as_str(), volume))
    });
    let volumes: Vec<(&str, PersistentVolume)> =
        stream::iter(prepared).buffered(8).try_collect().await?;
    for name in &names {
        hasten(trash_space, name).await?;
    }
    eventually_within(EXPIRES_WITHIN, "all claims are deleted", async || {
        let left = trash_space
            .space
            .claims
            .list(&Default::default())
            .await?
            .items;
        ensure!(left.is_empty(), "{} are left", left.len());
        anyhow::Ok(())
    })
    .await?;
    for (name, volume) in &volumes {
        trash_space.is_in_trash(&volume.name_any()).await?;
        trash_space.restored(name, name).await?;
    }
    for (name, volume) in &volumes {
        let restored = trash_space
            .volume_of(name)
            .await
            .context(name.to_string())?;
        assert_eq!(restored.name_any(), volume.name_any());
        assert_ne!(uid_of_claim(&restored), uid_of_claim(volume));
        assert_eq!(fs::read_to_string(file(&restored)?)?, *name);
    }
    Ok(())
}
