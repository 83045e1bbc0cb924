//! Users' operations on volumes.

use super::{Users, change, delete_all};
use crate::support::volume;
use anyhow::{Context, Result};
use futures::future::try_join_all;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

impl Users {
    pub(super) async fn use_volumes(&self) -> Result<()> {
        let (volumes, create) = (&self.space.volumes, PostParams::default());
        let label = json!({"metadata": {"labels": {"brief": self.space.name}}});
        let wanted = [
            ("new", json!({})),
            ("brief", json!({})),
            ("brief-1", label.clone()),
            ("brief-2", label),
        ];
        let made = wanted.map(async |(name, changes)| {
            let wanted = volume(&self.wide(name), changes)?;
            let created = volumes.create(&create, &wanted).await;
            created.map(drop).context(name)
        });
        try_join_all(made).await?;
        change(volumes, &self.wide("new")).await?;
        for name in ["brief", "old"] {
            volumes
                .delete(&self.wide(name), &DeleteParams::default())
                .await
                .context(name)?;
        }
        delete_all(volumes, &format!("brief={}", self.space.name)).await
    }

    /// Binds a volume that is being deleted, except in the dry run. Volume Warden would refuse it.
    pub async fn bind_late(&self) -> Result<()> {
        let (volumes, name) = (&self.space.volumes, self.wide("old"));
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
