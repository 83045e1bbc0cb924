//! Volumes of a CSI driver, with the released external-provisioner and external-attacher.

mod purges;
mod restores;

use super::support::{PURGE, TrashSpace, policy_of, uid_of_claim};
use crate::support::guarded;
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::PathBuf};
use volume_warden_controlplane::{Csi, eventually};

/// A CSI driver for one scenario, and a StorageClass of the driver.
struct CsiFixture {
    trash_space: TrashSpace,
    csi: Csi,
}

/// The names of a claim and of its volume, and the driver's handle of the volume.
struct Disk {
    claim: String,
    volume: String,
    handle: String,
}

impl CsiFixture {
    /// Starts a driver with this name, and creates a class of the driver with the reclaim policy
    /// Delete and these annotations.
    async fn new(label: &str, annotations: Value) -> Result<Self> {
        let cluster = guarded().await?;
        let csi = Csi::start(&cluster, label).await?;
        let changes = json!({"provisioner": csi.name(), "metadata": {"annotations": annotations}});
        let trash_space = TrashSpace::with_class(cluster, label, changes).await?;
        Ok(Self { trash_space, csi })
    }

    /// Creates claims with these names, and writes a file on the volume of each once it is Bound.
    async fn bound(&self, names: &[String], changes: &Value) -> Result<Vec<Disk>> {
        let bound = names.iter().map(async |name| {
            let volume = self.trash_space.bound(name, changes.clone()).await?;
            self.write_file(&volume)
        });
        try_join_all(bound).await
    }

    /// Creates claims as [`Self::bound`] does, and waits until the trash is enabled for their
    /// volumes.
    async fn enabled(&self, names: &[String]) -> Result<Vec<Disk>> {
        let disks = self.bound(names, &json!({})).await?;
        let enabled = disks
            .iter()
            .map(async |disk| self.trash_space.is_enabled(&disk.volume).await);
        try_join_all(enabled).await?;
        Ok(disks)
    }

    /// Writes a file on the volume. The text of the file is the name of the claim.
    fn write_file(&self, volume: &PersistentVolume) -> Result<Disk> {
        let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone());
        let claim = claim.and_then(|claim| claim.name).context("no claim")?;
        let handle = handle(volume)?;
        fs::write(self.file(&handle), &claim)?;
        let volume = volume.name_any();
        Ok(Disk {
            claim,
            volume,
            handle,
        })
    }

    fn file(&self, handle: &str) -> PathBuf {
        self.csi.directory_of(handle).join("file")
    }

    async fn delete_claims(&self, disks: &[Disk]) -> Result<()> {
        let deleted = disks
            .iter()
            .map(async |disk| self.trash_space.space.delete_claim(&disk.claim).await);
        try_join_all(deleted).await.map(drop)
    }

    /// Waits until the volumes are in the trash, and checks their files.
    async fn are_in_trash(&self, disks: &[Disk]) -> Result<()> {
        for disk in disks {
            self.trash_space.is_in_trash(&disk.volume).await?;
            assert_eq!(fs::read_to_string(self.file(&disk.handle))?, disk.claim);
        }
        Ok(())
    }

    /// Requests that the volumes are purged now, as a user does.
    async fn purge(&self, disks: &[Disk]) -> Result<()> {
        let volumes = &self.trash_space.space.volumes;
        for disk in disks {
            let volume = volumes.get(&disk.volume).await?;
            let patch = json!({"metadata": {"annotations": {PURGE: uid_of_claim(&volume)}}});
            let parameters = PatchParams::default();
            volumes
                .patch(&disk.volume, &parameters, &Patch::Merge(patch))
                .await?;
        }
        Ok(())
    }

    /// Waits until Volume Warden has purged the volumes: they have the policy Delete, or do not
    /// exist. The provisioner may not have deleted them yet.
    async fn are_purged(&self, disks: &[Disk]) -> Result<()> {
        for disk in disks {
            eventually(&format!("{} is purged", disk.volume), async || {
                let volume = self.trash_space.space.volumes.get_opt(&disk.volume).await?;
                let policy = volume.as_ref().map_or("Delete", policy_of);
                ensure!(policy == "Delete", "{policy}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until the volumes of the class in the cluster, and the volumes of the driver, are
    /// exactly these.
    async fn are_the_only_volumes(&self, disks: &[&Disk]) -> Result<()> {
        let expected: BTreeSet<_> = disks.iter().map(|disk| disk.handle.clone()).collect();
        eventually(
            "the cluster and the driver have these volumes only",
            async || {
                let volumes = self
                    .trash_space
                    .space
                    .volumes
                    .list(&ListParams::default())
                    .await?;
                let of_class = volumes.iter().filter(|volume| self.is_of_class(volume));
                let stored = of_class.map(handle).collect::<Result<BTreeSet<_>>>()?;
                let existing = self.csi.volumes()?;
                ensure!(
                    stored == expected && existing == expected,
                    "expected {expected:?}, stored {stored:?}, existing {existing:?}"
                );
                Ok(())
            },
        )
        .await
    }

    /// The handles of the volumes for which the driver received DeleteVolume.
    fn deletions(&self) -> Result<BTreeSet<String>> {
        let calls = self.csi.calls()?.into_iter();
        let deletions = calls.filter(|call| call.method == "DeleteVolume");
        Ok(deletions.map(|call| call.volume).collect())
    }

    fn is_of_class(&self, volume: &PersistentVolume) -> bool {
        let spec = volume.spec.as_ref();
        let class = spec.and_then(|spec| spec.storage_class_name.as_deref());
        class == Some(&self.trash_space.space.name)
    }

    /// Deletes the object of a volume, as a user does.
    async fn delete_object(&self, disk: &Disk) -> Result<()> {
        let (volumes, parameters) = (&self.trash_space.space.volumes, DeleteParams::default());
        volumes.delete(&disk.volume, &parameters).await?;
        Ok(())
    }
}

/// The driver's handle of the volume.
fn handle(volume: &PersistentVolume) -> Result<String> {
    let spec = volume.spec.as_ref();
    let source = spec.and_then(|spec| spec.csi.as_ref());
    Ok(source.context("no CSI volume")?.volume_handle.clone())
}

/// `count` names that begin with `prefix`.
fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}-{number}"))
        .collect()
}
