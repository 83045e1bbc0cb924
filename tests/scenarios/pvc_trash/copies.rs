//! The copies of volumes in ConfigMaps, from which deleted volumes can be recreated.

use super::support::{PURGE, TrashSpace, uid_of_claim};
use crate::support::{Space, guarded};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// The namespace of the shared installation, in which its copies are.
pub const NAMESPACE: &str = "volume-warden";

fn copies(space: &Space, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(space.cluster.client(), namespace)
}

fn copy_name(volume: &PersistentVolume) -> String {
    format!("volume-warden-trash-{}", volume.uid().unwrap_or_default())
}

/// Waits until the copy of the volume in this namespace has this text, and returns its manifest.
pub async fn has_copy_with(
    space: &Space,
    namespace: &str,
    volume: &PersistentVolume,
    text: &str,
) -> Result<Value> {
    let name = copy_name(volume);
    eventually(&format!("{name} contains {text}"), async || {
        let copy = copies(space, namespace).get(&name).await?;
        let data = copy.data.unwrap_or_default();
        let manifest = data.get("volume").cloned().unwrap_or_default();
        ensure!(manifest.contains(text), "{manifest}");
        Ok(Some(serde_json::from_str(&manifest)?))
    })
    .await
}

/// Waits until the volume has no copy.
pub async fn has_no_copy(space: &Space, volume: &PersistentVolume) -> Result<()> {
    let name = copy_name(volume);
    eventually(&format!("{name} is deleted"), async || {
        let found = copies(space, NAMESPACE).get_opt(&name).await?;
        ensure!(found.is_none(), "{found:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_volume_has_a_copy_for_as_long_as_the_trash_keeps_it() -> Result<()> {
    let trash_space = TrashSpace::new(guarded().await?, "trash-copies", "1h").await?;
    let space = &trash_space.space;
    let bound = trash_space.bound("bound", json!({})).await?;
    let deleted = trash_space.deleted("deleted", "kept").await?;
    for volume in [&bound, &deleted] {
        let uid = uid_of_claim(volume);
        let manifest = has_copy_with(space, NAMESPACE, volume, uid).await?;
        ensure!(
            manifest["spec"]["hostPath"]["path"].is_string(),
            "{manifest}"
        );
        ensure!(!manifest.to_string().contains("deletedAt"), "{manifest}");
    }
    let purge = json!({"metadata": {"annotations": {PURGE: uid_of_claim(&deleted)}}});
    let (name, patch) = (deleted.name_any(), PatchParams::default());
    space
        .volumes
        .patch(&name, &patch, &Patch::Merge(purge))
        .await?;
    trash_space.is_purged(&deleted).await?;
    has_no_copy(space, &deleted).await?;
    trash_space.set_window(Some("off")).await?;
    has_no_copy(space, &bound).await
}
