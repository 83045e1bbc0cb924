//! Users' operations on pods.

use super::{Users, delete_collection, patch_and_update};
use crate::support::{dry_run, on_node, pod};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{EvictParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// The prefix of the annotations by which a pod requests a claim for its volume `data`.
const REQUEST: &str = "dynamic-pvc-provisioner.kubernetes.io/data";

impl Users {
    pub(super) async fn use_pods(&self) -> Result<()> {
        let (space, pods) = (&self.space, &self.space.pods);
        space.create_pod("scheduled", "data", json!({})).await?;
        space.create_pod("placed", "shared", on_node()).await?;
        space.create_pod("asking", "asked", claim_request()).await?;
        self.dry_runs().await.context("dry run")?;
        self.bind().await.context("binding")?;
        self.pod_is_running("scheduled").await?;
        patch_and_update(pods, "scheduled").await?;
        for name in ["evicted", "deleted", "brief-1", "brief-2"] {
            let label = name.strip_prefix("brief");
            let label = json!({"metadata": {"labels": {"brief": label.map(|_| "")}}});
            pods.create(&PostParams::default(), &pod_without_claim(name, label)?)
                .await?;
        }
        pods.evict("evicted", &EvictParams::default())
            .await
            .context("eviction")?;
        space.delete_pod("deleted").await?;
        delete_collection(pods, "brief").await
    }

    /// Creates, by dry run, a pod for which two webhooks are called, and one in a namespace for
    /// which none is called.
    async fn dry_runs(&self) -> Result<()> {
        let mut changes = claim_request();
        json_patch::merge(&mut changes, &on_node());
        let new = pod("never", "shared", changes)?;
        self.space.pods.create(&dry_run(), &new).await?;
        let system: Api<Pod> = Api::namespaced(self.space.cluster.client(), "kube-system");
        eventually("kube-system accepts pods", async || {
            system.create(&dry_run(), &new).await.map(drop)
        })
        .await
    }

    /// Binds a pod as a scheduler does.
    async fn bind(&self) -> Result<()> {
        let unscheduled = json!({"spec": {"schedulerName": "absent"}});
        let space = &self.space;
        space.create_pod("bound", "shared", unscheduled).await?;
        let parameters = PostParams::default();
        space
            .bind("pods/bound/binding", "bound", &parameters)
            .await?;
        self.pod_is_running("bound").await
    }

    pub(super) async fn pod_is_running(&self, name: &str) -> Result<()> {
        eventually(&format!("pod {name} is running"), async || {
            let status = self.space.pods.get(name).await?.status;
            let phase = status.and_then(|status| status.phase);
            ensure!(phase.as_deref() == Some("Running"), "{phase:?}");
            Ok(())
        })
        .await
    }
}

/// The annotations of a pod that requests a claim.
fn claim_request() -> Value {
    let template = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}},
    });
    let annotations = [
        (format!("{REQUEST}.enabled"), json!("true")),
        (format!("{REQUEST}.pvc"), json!(template.to_string())),
    ];
    json!({"metadata": {"annotations": serde_json::Map::from_iter(annotations)}})
}

fn pod_without_claim(name: &str, mut changes: Value) -> Result<Pod> {
    changes["spec"]["volumes"] = json!(null);
    pod(name, "none", changes)
}
