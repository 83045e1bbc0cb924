//! Volumes in real directories, which kube-controller-manager provisions.

use super::support::{LABEL, VolumeSpace};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    core::v1::{ObjectReference, PersistentVolume},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use std::path::PathBuf;
use volume_warden_controlplane::eventually;

impl VolumeSpace {
    /// Creates a class whose reclaim policy is Retain.
    pub async fn create_class(&self, name: &str, binding: &str) -> Result<()> {
        let class = serde_json::from_value(json!({
            "metadata": {"name": name}, "provisioner": "kubernetes.io/host-path",
            "reclaimPolicy": "Retain", "volumeBindingMode": binding,
        }))?;
        let classes: Api<StorageClass> = Api::all(self.space.cluster.client());
        classes.create(&PostParams::default(), &class).await?;
        Ok(())
    }

    pub async fn volumes_of(&self, class: &str) -> Result<Vec<PersistentVolume>> {
        let mut found = self.space.volumes.list(&ListParams::default()).await?.items;
        let class_of = |volume: &PersistentVolume| volume.spec.clone()?.storage_class_name;
        found.retain(|volume| class_of(volume).as_deref() == Some(class));
        Ok(found)
    }

    /// Waits until the class has exactly `count` volumes, and all are free. Returns them.
    pub async fn has_free_volumes(
        &self,
        class: &str,
        count: usize,
    ) -> Result<Vec<PersistentVolume>> {
        eventually(&format!("{class} has {count} free volumes"), async || {
            let volumes = self.volumes_of(class).await?;
            let used = volumes.iter().filter(|volume| !is_free(volume));
            let used: Vec<_> = used.map(|volume| (&volume.spec, &volume.status)).collect();
            ensure!(
                used.is_empty() && volumes.len() == count,
                "{} volumes, not free: {used:?}",
                volumes.len()
            );
            anyhow::Ok(Some(volumes))
        })
        .await
    }

    /// Deletes the volume and its directory.
    pub async fn delete_with_data(&self, volume: &PersistentVolume) -> Result<()> {
        std::fs::remove_dir_all(directory(volume)?)?;
        let (name, parameters) = (volume.name_any(), DeleteParams::default());
        self.space.volumes.delete(&name, &parameters).await?;
        Ok(())
    }
}

/// Whether the volume is Available and not labelled, and has no claimRef or is parked.
pub fn is_free(volume: &PersistentVolume) -> bool {
    let phase = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let claim = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    let name = |claim: &ObjectReference| claim.name.clone().unwrap_or_default();
    let free = claim.is_none_or(|claim| name(claim).starts_with("parked-"));
    phase == Some("Available") && free && !volume.labels().contains_key(LABEL)
}

/// The directory with the volume's files.
pub fn directory(volume: &PersistentVolume) -> Result<PathBuf> {
    let spec = volume.spec.as_ref().context("no spec")?;
    let path = &spec.host_path.as_ref().context("no directory")?.path;
    Ok(path.into())
}
