//! Helpers for a StorageClass with an undelete window, its claims, and the files on its volumes.

use super::versions::Versions;
use crate::{
    pv_releaser::directory,
    support::{Space, claim, shared::Shared, volume},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};
use volume_warden_controlplane::eventually;

pub const TRASH: &str = "volume-warden.dev/trash";
pub const UNDELETE: &str = "volume-warden.dev/undelete";
pub const PURGE: &str = "volume-warden.dev/purge";
pub const TOUCHED: &str = "volume-warden.dev/undelete-touched";
pub const WINDOW: &str = "volume-warden.dev/undelete-window";
pub const WINDOW_MAX: &str = "volume-warden.dev/undelete-window-max";

/// A namespace and a StorageClass of the same name.
pub struct TrashSpace {
    pub space: Space,
    /// The versions that the volumes of the class have had.
    pub versions: Versions,
}

impl TrashSpace {
    /// Creates a namespace, and a class with the reclaim policy Delete and this undelete window.
    pub async fn new(cluster: Shared, label: &str, window: &str) -> Result<Self> {
        let annotations = json!({WINDOW: window});
        Self::with_class(
            cluster,
            label,
            json!({"metadata": {"annotations": annotations}}),
        )
        .await
    }

    /// Creates a namespace, and a class with the reclaim policy Delete, with `changes` merged over
    /// it.
    pub async fn with_class(cluster: Shared, label: &str, changes: Value) -> Result<Self> {
        let space = Space::new(cluster, label).await?;
        let mut class = json!({
            "metadata": {"name": space.name}, "provisioner": "kubernetes.io/host-path",
            "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
        });
        json_patch::merge(&mut class, &changes);
        let class: StorageClass = serde_json::from_value(class)?;
        let classes: Api<StorageClass> = Api::all(space.cluster.client());
        classes.create(&PostParams::default(), &class).await?;
        let versions = Versions::follow(space.volumes.clone(), &space.name).await?;
        Ok(Self { space, versions })
    }

    /// Changes the undelete window of the class. `None` removes the annotation.
    pub async fn set_window(&self, window: Option<&str>) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {WINDOW: window}}}));
        let classes: Api<StorageClass> = Api::all(self.space.cluster.client());
        classes
            .patch(&self.space.name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Creates a claim of the class, and returns its volume once both are Bound.
    pub async fn bound(&self, name: &str, changes: Value) -> Result<PersistentVolume> {
        let mut wanted = json!({"spec": {"storageClassName": self.space.name}});
        json_patch::merge(&mut wanted, &changes);
        let claims = &self.space.claims;
        claims
            .create(&PostParams::default(), &claim(name, wanted)?)
            .await?;
        self.volume_of(name).await
    }

    /// Returns the volume of a claim once both are Bound.
    pub async fn volume_of(&self, name: &str) -> Result<PersistentVolume> {
        eventually(&format!("claim {name} is Bound"), async || {
            let claim = self.space.claims.get(name).await?;
            let phase = claim
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref());
            ensure!(phase == Some("Bound"), "{phase:?}");
            let volume = claim
                .spec
                .and_then(|spec| spec.volume_name)
                .unwrap_or_default();
            let volume = self.space.volumes.get(&volume).await?;
            ensure!(phase_of(&volume) == "Bound", "{:?}", volume.status);
            anyhow::Ok(Some(volume))
        })
        .await
    }

    /// Creates a claim, writes a file with this text on its volume, deletes the claim, and returns
    /// the volume once it is in the trash.
    pub async fn deleted(&self, name: &str, text: &str) -> Result<PersistentVolume> {
        let volume = self.bound(name, json!({})).await?;
        fs::write(file(&volume)?, text)?;
        self.is_enabled(&volume.name_any()).await?;
        self.delete(name, &volume).await
    }

    /// Deletes the claim, and returns its volume once the volume is in the trash.
    pub async fn delete(&self, name: &str, volume: &PersistentVolume) -> Result<PersistentVolume> {
        self.space
            .claims
            .delete(name, &DeleteParams::default())
            .await?;
        self.is_in_trash(&volume.name_any()).await
    }

    /// Waits until the trash is enabled for the volume: it is Bound with the policy Retain, and its
    /// record names its claim.
    pub async fn is_enabled(&self, volume: &str) -> Result<PersistentVolume> {
        eventually(&format!("the trash is enabled for {volume}"), async || {
            let volume = self.space.volumes.get(volume).await?;
            let record = record(&volume)?;
            ensure!(policy_of(&volume) == "Retain" && phase_of(&volume) == "Bound");
            ensure!(record["claim"]["uid"] == uid_of_claim(&volume), "{record}");
            ensure!(record["claim"]["namespaceUid"].is_string(), "{record}");
            anyhow::Ok(Some(volume))
        })
        .await
    }

    /// Waits until the volume is in the trash: it is Released with the policy Retain, and its
    /// record contains the time of the deletion.
    pub async fn is_in_trash(&self, volume: &str) -> Result<PersistentVolume> {
        eventually(&format!("{volume} is in the trash"), async || {
            let volume = self.space.volumes.get(volume).await?;
            let record = record(&volume)?;
            ensure!(
                policy_of(&volume) == "Retain" && phase_of(&volume) == "Released",
                "{record}"
            );
            ensure!(record["deletedAt"].is_string(), "{record}");
            ensure!(record["claim"]["uid"] == uid_of_claim(&volume), "{record}");
            anyhow::Ok(Some(volume))
        })
        .await
    }

    /// Creates a claim that requests the data of the deleted claim or volume `requested`, with an
    /// empty spec. Returns the API server's response unchanged.
    pub async fn undelete(
        &self,
        requested: &str,
        name: &str,
    ) -> Result<kube::Result<PersistentVolumeClaim>> {
        let wanted =
            json!({"metadata": {"name": name, "annotations": {UNDELETE: requested}}, "spec": {}});
        let claims = &self.space.claims;
        Ok(claims
            .create(&PostParams::default(), &serde_json::from_value(wanted)?)
            .await)
    }

    /// Creates the claim of [`Self::undelete`]. Retries until the webhook knows that the data is in
    /// the trash.
    pub async fn restored(&self, requested: &str, name: &str) -> Result<PersistentVolumeClaim> {
        eventually(&format!("{requested} can be restored"), async || {
            Ok::<_, anyhow::Error>(Some(self.undelete(requested, name).await??))
        })
        .await
    }

    /// Creates a volume in the trash that is reserved for this claim.
    pub async fn create_reserved(&self, name: &str, claim: &PersistentVolumeClaim) -> Result<()> {
        let (namespace, uid) = (&self.space.name, claim.uid());
        let now = k8s_openapi::jiff::Timestamp::now().to_string();
        let record = json!({
            "policy": "Delete", "windowSeconds": 3600,
            "deletedAt": now, "reservedAt": now, "reservedFor": uid,
            "claim": {"namespace": namespace, "name": "gone", "uid": "gone"},
        });
        let claim_ref = json!({"namespace": namespace, "name": claim.name_any()});
        let changes = json!({
            "metadata": {"annotations": {TRASH: record.to_string()}},
            "spec": {"storageClassName": namespace, "claimRef": claim_ref},
        });
        let volume = volume(&format!("{namespace}-{name}"), changes)?;
        self.space
            .volumes
            .create(&PostParams::default(), &volume)
            .await?;
        Ok(())
    }

    /// Creates a claim that is larger than any volume, of a class without a provisioner.
    pub async fn create_large_claim(&self, name: &str) -> Result<PersistentVolumeClaim> {
        let large = json!({"spec": {"resources": {"requests": {"storage": "1Ti"}}}});
        let claims = &self.space.claims;
        Ok(claims
            .create(&PostParams::default(), &claim(name, large)?)
            .await?)
    }

    /// Waits until the volume and its directory are deleted.
    pub async fn is_purged(&self, volume: &PersistentVolume) -> Result<()> {
        let (name, directory) = (volume.name_any(), directory(volume)?);
        eventually(&format!("{name} is purged"), async || {
            let found = self.space.volumes.get_opt(&name).await?;
            ensure!(found.is_none(), "{:?}", found.map(|volume| volume.status));
            ensure!(!directory.exists(), "the directory of the volume exists");
            Ok(())
        })
        .await
    }

    /// Fails if a version of a volume with a record of the trash was Released with the policy
    /// Delete: the provisioner may delete the data of such a volume at any time.
    pub async fn nothing_was_at_risk(&self) -> Result<()> {
        for volume in self.versions.all().await? {
            let at_risk = phase_of(&volume) == "Released" && policy_of(&volume) == "Delete";
            ensure!(
                !at_risk || !volume.annotations().contains_key(TRASH),
                "{volume:?}"
            );
        }
        Ok(())
    }
}

/// The record of the trash in the annotation of the volume.
pub fn record(volume: &PersistentVolume) -> Result<Value> {
    let text = volume.annotations().get(TRASH).context("no record")?;
    Ok(serde_json::from_str(text)?)
}

pub fn policy_of(volume: &PersistentVolume) -> &str {
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy.unwrap_or_default()
}

pub fn phase_of(volume: &PersistentVolume) -> &str {
    let status = volume.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// Waits until the volume is in this phase.
pub async fn is_in_phase(space: &Space, name: &str, phase: &str) -> Result<()> {
    eventually(&format!("{name} is {phase}"), async || {
        let volume = space.volumes.get(name).await?;
        ensure!(phase_of(&volume) == phase, "{:?}", volume.status);
        Ok(())
    })
    .await
}

pub fn uid_of_claim(volume: &PersistentVolume) -> &str {
    let claim = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    claim
        .and_then(|claim| claim.uid.as_deref())
        .unwrap_or_default()
}

/// The path of a file on the volume.
pub fn file(volume: &PersistentVolume) -> Result<PathBuf> {
    Ok(directory(volume)?.join("file"))
}
