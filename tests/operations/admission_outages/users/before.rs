//! Objects that users have before an outage.

use super::Users;
use crate::support::{Space, claim, dry_run, is_refused, on_node, volume};
use anyhow::Result;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// A finalizer that keeps deleted objects readable.
pub const KEEPER: &str = "example.com/keep";

impl Users {
    /// Creates protected claims, one of them in use, objects that are deleted during the outage,
    /// and a claim that is being deleted while a pod uses it.
    pub async fn create_before_outage(space: Space) -> Result<Self> {
        let client = space.cluster.client();
        let users = Self {
            sets: Api::namespaced(client.clone(), &space.name),
            namespaces: Api::all(client),
            space,
        };
        for name in ["unused", "used", "renewed"] {
            users.space.create_claim(name).await?;
            users.space.claim_is_protected(name).await?;
        }
        users.space.create_running_pod("user", "used").await?;
        users.grant_tenant_role().await?;
        users.create_objects_to_delete().await?;
        users.start_claim_deletion().await?;
        Ok(users)
    }

    /// Creates a volume and a namespace that are deleted during the outage.
    async fn create_objects_to_delete(&self) -> Result<()> {
        let (volumes, create) = (&self.space.volumes, PostParams::default());
        let finalizers =
            json!({"metadata": {"finalizers": [KEEPER, "kubernetes.io/pv-protection"]}});
        volumes
            .create(
                &create,
                &volume(&self.cluster_scoped_name("old"), finalizers)?,
            )
            .await?;
        let doomed = serde_json::from_value(
            json!({"metadata": {"name": self.cluster_scoped_name("doomed")}}),
        )?;
        self.namespaces.create(&create, &doomed).await?;
        let claims = Api::namespaced(
            self.space.cluster.client(),
            &self.cluster_scoped_name("doomed"),
        );
        claims.create(&create, &claim("data", json!({}))?).await?;
        Ok(())
    }

    /// Deletes a claim that a pod uses, and waits until Volume Warden knows of the deletion and
    /// refuses other pods with this claim.
    async fn start_claim_deletion(&self) -> Result<()> {
        let space = &self.space;
        space.create_running_pod("last", "renewed").await?;
        space.delete_claim("renewed").await?;
        eventually(
            "a pod with a claim that is being deleted is refused",
            async || {
                let late = crate::support::pod("late", "renewed", on_node())?;
                let result = space.pods.create(&dry_run(), &late).await;
                is_refused(result, "is being deleted")
            },
        )
        .await
    }

    /// Removes the finalizers of the claim that is being deleted, waits until it is deleted, and
    /// creates a claim of the same name and a pod that uses it.
    pub async fn recreate_claim(&self) -> Result<()> {
        let space = &self.space;
        let now = DeleteParams::default().grace_period(0);
        space.pods.delete("last", &now).await?;
        let no_finalizers = json!({"metadata": {"finalizers": null}});
        let result = space.patch_claim("renewed", no_finalizers).await;
        // The patch fails if Volume Warden has already removed the finalizer.
        drop(result);
        space.claim_is_gone("renewed").await?;
        space.create_claim("renewed").await?;
        let created = space.create_pod("successor", "renewed", on_node()).await;
        created.map(drop)
    }
}
