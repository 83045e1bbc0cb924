//! Users' operations on claims.

use super::{Users, change, delete_all};
use crate::{
    admission_outages::fixture::POOL,
    support::{claim, dry_run},
};
use anyhow::{Context, Result};
use futures::future::try_join_all;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// The label of a claim of the pool.
const POOLED: &str = "reclaimable-pv-releaser.kubernetes.io/managed-by";

impl Users {
    pub(super) async fn use_claims(&self) -> Result<()> {
        let bound = json!({"spec": {"storageClassName": "standard"}});
        let labels = json!({POOLED: "dynamic-reclaimable-pvc-controllers"});
        let pooled = json!({"metadata": {"labels": labels}, "spec": {"storageClassName": POOL}});
        // A backup restores claims in this way.
        let marks =
            json!({"volume-warden.dev/scaled-with": "x", "volume-warden.dev/awaiting-pod": "x"});
        let label = json!({"metadata": {"labels": {"brief": ""}}});
        let wanted = [
            ("data", bound.clone()),
            ("shared", bound),
            ("pooled", pooled),
            (
                "restored",
                json!({"metadata": {"annotations": marks.clone()}}),
            ),
            (
                "protected",
                json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}),
            ),
            (
                "selecting",
                json!({"spec": {"selector": {"matchLabels": {"of": "none"}}}}),
            ),
            ("brief", json!({})),
            ("brief-1", label.clone()),
            ("brief-2", label),
        ];
        try_join_all(wanted.map(|(name, changes)| self.create_claim(name, changes))).await?;
        let claims = &self.space.claims;
        claims
            .create(&dry_run(), &claim("never", json!({}))?)
            .await
            .context("dry run")?;
        self.mark(&marks).await.context("markers")?;
        self.use_tenant(marks.clone()).await.context("a tenant")?;
        self.undelete().await.context("the trash")?;
        self.undelete_by_volume(marks).await.context("a volume")?;
        change(claims, "data").await?;
        for name in ["brief", "unused", "used"] {
            self.space.delete_claim(name).await.context(name)?;
        }
        delete_all(claims, "brief").await
    }

    /// The backup is applied to a claim that exists.
    async fn mark(&self, marks: &Value) -> Result<()> {
        let marks = Patch::Merge(json!({"metadata": {"annotations": marks}}));
        let claims = &self.space.claims;
        claims
            .patch("data", &PatchParams::default(), &marks)
            .await?;
        Ok(())
    }

    async fn create_claim(&self, name: &str, changes: Value) -> Result<()> {
        let (claims, create) = (&self.space.claims, PostParams::default());
        let created = claims.create(&create, &claim(name, changes)?).await;
        created.map(drop).context(name.to_owned())
    }
}
