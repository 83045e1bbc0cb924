//! Users' operations on volumes.

use super::{Users, delete_collection, patch_and_update};
use crate::support::volume;
use anyhow::{Context, Result};
use futures::future::try_join_all;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

impl Users {
    pub(super) async fn use_volumes(&self) -> Result<()> {
        let (volumes, create) = (&self.space.volumes, PostParams::default());
        let label = json!({"metadata": {"labels": {"brief": self.space.name}}});
        let new = [
            ("new", json!({})),
            ("brief", json!({})),
            ("brief-1", label.clone()),
            ("brief-2", label),
        ];
        let created = new.map(async |(name, changes)| {
            let volume = volume(&self.cluster_scoped_name(name), changes)?;
            let created = volumes.create(&create, &volume).await;
            created.map(drop).context(name)
        });
        try_join_all(created).await?;
        patch_and_update(volumes, &self.cluster_scoped_name("new")).await?;
        for name in ["brief", "old"] {
            volumes
                .delete(&self.cluster_scoped_name(name), &DeleteParams::default())
                .await
                .context(name)?;
        }
        delete_collection(volumes, &format!("brief={}", self.space.name)).await
    }

    /// Binds, by dry run, a volume that is being deleted. A running Volume Warden would refuse
    /// this.
    pub async fn bind_volume_being_deleted(&self) -> Result<()> {
        let (volumes, name) = (&self.space.volumes, self.cluster_scoped_name("old"));
        let dry_run = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let claim = json!({"namespace": self.space.name, "name": "late", "uid": "late"});
        let bind = Patch::<Value>::Merge(json!({"spec": {"claimRef": claim}}));
        volumes
            .patch(&name, &dry_run, &bind)
            .await
            .context("binding")?;
        let bound = Patch::<Value>::Merge(json!({"status": {"phase": "Bound"}}));
        volumes.patch_status(&name, &dry_run, &bound).await?;
        Ok(())
    }
}
