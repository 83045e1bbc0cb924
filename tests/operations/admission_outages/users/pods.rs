//! Users' operations on pods.

use super::{Users, change, delete_all};
use crate::support::{dry_run, on_node, pod};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{EvictParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

const ASK: &str = "dynamic-pvc-provisioner.kubernetes.io/data";

impl Users {
    pub(super) async fn use_pods(&self) -> Result<()> {
        let (space, pods) = (&self.space, &self.space.pods);
        space.create_pod("scheduled", "data", json!({})).await?;
        space.create_pod("placed", "shared", on_node()).await?;
        space.create_pod("asking", "asked", asking()).await?;
        self.dry_runs().await.context("dry run")?;
        self.bind().await.context("binding")?;
        self.runs("scheduled").await?;
        change(pods, "scheduled").await?;
        for name in ["evicted", "deleted", "brief-1", "brief-2"] {
            let label = name.strip_prefix("brief");
            let label = json!({"metadata": {"labels": {"brief": label.map(|_| "")}}});
            pods.create(&PostParams::default(), &bare(name, label)?)
                .await?;
        }
        pods.evict("evicted", &EvictParams::default())
            .await
            .context("eviction")?;
        space.delete_pod("deleted").await?;
        delete_all(pods, "brief").await
    }

    /// Creates a pod for which two webhooks are called, and one in a namespace for which none is
    /// called.
    async fn dry_runs(&self) -> Result<()> {
        let mut both = asking();
        json_patch::merge(&mut both, &on_node());
        let wanted = pod("never", "shared", both)?;
        self.space.pods.create(&dry_run(), &wanted).await?;
        let system: Api<Pod> = Api::namespaced(self.space.cluster.client(), "kube-system");
        eventually("kube-system accepts pods", async || {
            system.create(&dry_run(), &wanted).await.map(drop)
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
        self.runs("bound").await
    }

    pub(super) async fn runs(&self, name: &str) -> Result<()> {
        eventually(&format!("pod {name} runs"), async || {
            let status = self.space.pods.get(name).await?.status;
            let phase = status.and_then(|status| status.phase);
            ensure!(phase.as_deref() == Some("Running"), "{phase:?}");
            Ok(())
        })
        .await
    }
}

/// Annotations that request a claim.
fn asking() -> Value {
    let template = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}},
    });
    let annotations = [
        (format!("{ASK}.enabled"), json!("true")),
        (format!("{ASK}.pvc"), json!(template.to_string())),
    ];
    json!({"metadata": {"annotations": serde_json::Map::from_iter(annotations)}})
}

/// A pod without a claim.
fn bare(name: &str, mut changes: Value) -> Result<Pod> {
    changes["spec"]["volumes"] = json!(null);
    pod(name, "none", changes)
}
