//! Objects that users have before an outage.

use super::Users;
use crate::support::{Space, claim, dry_run, on_node, volume};
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
    /// Protected claims and volumes, one of them in use, and a claim that is being deleted while a
    /// pod uses it.
    pub async fn settle(space: Space) -> Result<Self> {
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
        users.admit_tenant().await?;
        users.leave_behind().await?;
        users.start_to_delete().await?;
        Ok(users)
    }

    /// A volume and a namespace that are going to be deleted.
    async fn leave_behind(&self) -> Result<()> {
        let (volumes, create) = (&self.space.volumes, PostParams::default());
        let kept = json!({"metadata": {"finalizers": [KEEPER, "kubernetes.io/pv-protection"]}});
        volumes
            .create(&create, &volume(&self.wide("old"), kept)?)
            .await?;
        let doomed = serde_json::from_value(json!({"metadata": {"name": self.wide("doomed")}}))?;
        self.namespaces.create(&create, &doomed).await?;
        let claims = Api::namespaced(self.space.cluster.client(), &self.wide("doomed"));
        claims.create(&create, &claim("data", json!({}))?).await?;
        Ok(())
    }

    /// Waits until Volume Warden knows of the deletion and refuses pods.
    async fn start_to_delete(&self) -> Result<()> {
        let space = &self.space;
        space.create_running_pod("last", "renewed").await?;
        space.delete_claim("renewed").await?;
        eventually("a pod is refused the claim", async || {
            let late = crate::support::pod("late", "renewed", on_node())?;
            let answer = space.pods.create(&dry_run(), &late).await;
            anyhow::Ok(answer.is_err())
        })
        .await
    }

    /// Waits until the claim that was being deleted is gone, even if Volume Warden does not remove
    /// its finalizer, and creates a claim of the same name for a pod.
    pub async fn renew(&self) -> Result<()> {
        let space = &self.space;
        let now = DeleteParams::default().grace_period(0);
        space.pods.delete("last", &now).await?;
        let stripped = json!({"metadata": {"finalizers": null}});
        let answer = space.patch_claim("renewed", stripped).await;
        // Volume Warden may already have removed it.
        drop(answer);
        space.claim_is_gone("renewed").await?;
        space.create_claim("renewed").await?;
        let placed = space.create_pod("successor", "renewed", on_node()).await;
        placed.map(drop)
    }
}
