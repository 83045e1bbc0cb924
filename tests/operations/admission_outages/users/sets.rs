//! Users' operations on StatefulSets.

use super::{Users, delete_collection, patch_and_update};
use crate::support::sets::{DELETE_RETAIN, set};
use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use volume_warden_controlplane::eventually;

impl Users {
    pub(super) async fn use_sets(&self) -> Result<()> {
        let (sets, create) = (&self.sets, PostParams::default());
        let label = json!({"metadata": {"labels": {"brief": ""}}});
        for (name, replicas, changes) in [
            ("web", 2, json!({})),
            ("brief", 0, json!({})),
            ("brief-1", 0, label),
        ] {
            let new = set(name, replicas, DELETE_RETAIN, changes)?;
            sets.create(&create, &new).await.context(name)?;
        }
        patch_and_update(sets, "web").await?;
        self.has_pods(2).await?;
        let smaller = Patch::Merge(json!({"spec": {"replicas": 1}}));
        sets.patch_scale("web", &PatchParams::default(), &smaller)
            .await
            .context("scaling")?;
        self.has_pods(1).await?;
        sets.delete("brief", &DeleteParams::default()).await?;
        delete_collection(sets, "brief").await
    }

    async fn has_pods(&self, wanted: i32) -> Result<()> {
        eventually(&format!("web has {wanted} pods"), async || {
            let status = self.sets.get("web").await?.status.unwrap_or_default();
            let (replicas, ready) = (status.replicas, status.ready_replicas);
            ensure!(replicas == wanted && ready == Some(wanted), "{status:?}");
            Ok(())
        })
        .await
    }
}
