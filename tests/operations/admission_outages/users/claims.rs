//! Users' operations on claims.

use super::{Users, delete_collection, patch_and_update};
use crate::{
    admission_outages::fixture::POOL,
    support::{claim, dry_run},
};
use anyhow::{Context, Result};
use futures::future::try_join_all;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// The label of the claims that use the pool.
const POOL_LABEL: &str = "reclaimable-pv-releaser.kubernetes.io/managed-by";

impl Users {
    pub(super) async fn use_claims(&self) -> Result<()> {
        let of_class = json!({"spec": {"storageClassName": "standard"}});
        let labels = json!({POOL_LABEL: "dynamic-reclaimable-pvc-controllers"});
        let pooled = json!({"metadata": {"labels": labels}, "spec": {"storageClassName": POOL}});
        // Of a claim that is restored from a backup.
        let markers = json!({
            "labels": {"dynamic-pvc-provisioner.kubernetes.io/managed-by": "x"},
            "annotations": {
                "volume-warden.dev/scaled-with": "x",
                "volume-warden.dev/awaiting-pod": "x",
            },
        });
        let label = json!({"metadata": {"labels": {"brief": ""}}});
        let new = [
            ("data", of_class.clone()),
            ("shared", of_class),
            ("pooled", pooled),
            ("restored", json!({"metadata": markers.clone()})),
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
        try_join_all(new.map(|(name, changes)| self.create_claim(name, changes))).await?;
        let claims = &self.space.claims;
        claims
            .create(&dry_run(), &claim("never", json!({}))?)
            .await
            .context("dry run")?;
        self.add_markers(&markers).await.context("markers")?;
        self.use_claims_as_tenant(markers.clone())
            .await
            .context("a tenant")?;
        self.undelete().await.context("the trash")?;
        self.undelete_by_volume(markers).await.context("a volume")?;
        patch_and_update(claims, "data").await?;
        for name in ["brief", "unused", "used"] {
            self.space.delete_claim(name).await.context(name)?;
        }
        delete_collection(claims, "brief").await
    }

    /// Adds the markers of Volume Warden to an existing claim, as when a backup is applied to it.
    async fn add_markers(&self, markers: &Value) -> Result<()> {
        let markers = Patch::Merge(json!({"metadata": markers}));
        let claims = &self.space.claims;
        claims
            .patch("data", &PatchParams::default(), &markers)
            .await?;
        Ok(())
    }

    async fn create_claim(&self, name: &str, changes: Value) -> Result<()> {
        let (claims, create) = (&self.space.claims, PostParams::default());
        let created = claims.create(&create, &claim(name, changes)?).await;
        created.map(drop).context(name.to_owned())
    }
}
