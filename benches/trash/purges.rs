//! The purge of volumes in the trash, on request.

use crate::{
    Size,
    each::{AT_ONCE, each},
    stand::{Stand, policy},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams, WatchEvent},
};
use serde_json::json;
use std::{collections::HashSet, time::Instant};

const PURGE: &str = "volume-warden.dev/purge";

/// Seconds from the first request.
pub struct Purges {
    /// Until the last volume had the policy Delete.
    pub purged: f64,
    /// Until the provisioner had deleted the last volume.
    pub deleted: f64,
}

/// Requests the purge of volumes, and waits until they are deleted.
pub async fn purge(stand: &Stand, size: Size) -> Result<Purges> {
    let version = stand.version().await?;
    let volumes = stand.volumes.list(&ListParams::default()).await?;
    let requested = &volumes.items[..size.purged];
    let started = Instant::now();
    let requests = each(requested.len(), AT_ONCE, async |index| {
        request(stand, &requested[index]).await
    });
    let (mut purged, mut deleted) = (HashSet::new(), 0);
    let mut last_purged = started;
    let watch = stand.watch(version, |event| {
        match event {
            WatchEvent::Modified(volume)
                if policy(volume) == "Delete" && purged.insert(volume.name_any()) =>
            {
                last_purged = Instant::now();
            }
            WatchEvent::Deleted(_) => deleted += 1,
            _ => {}
        }
        deleted == size.purged
    });
    let (_, end) = tokio::try_join!(requests, watch)?;
    ensure!(purged.len() == size.purged, "{} were purged", purged.len());
    let (left, expected) = (stand.csi.volumes()?.len(), size.deleted - size.purged);
    ensure!(
        left == expected,
        "the driver has {left} volumes, expected {expected}"
    );
    Ok(Purges {
        purged: last_purged.duration_since(started).as_secs_f64(),
        deleted: end.duration_since(started).as_secs_f64(),
    })
}

async fn request(stand: &Stand, volume: &PersistentVolume) -> Result<()> {
    let claim = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    let uid = claim
        .and_then(|claim| claim.uid.as_deref())
        .context("the claimRef has no uid")?;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {PURGE: uid}}}));
    let (name, parameters) = (volume.name_any(), PatchParams::default());
    stand.volumes.patch(&name, &parameters, &patch).await?;
    Ok(())
}
