//! Protected claims that pods use.

use crate::each::{AT_ONCE, each};
use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Api, api::PostParams};
use serde_json::json;
use volume_warden_controlplane::Cluster;

/// The objects of the load.
pub struct Space {
    /// The claims.
    pub claims: Api<PersistentVolumeClaim>,
    /// The pods.
    pub pods: Api<Pod>,
}

/// The name of the claim with this number.
pub fn claim_name(index: usize) -> String {
    format!("claim-{index:05}")
}

/// The name of the pod with this number.
pub fn pod_name(index: usize) -> String {
    format!("pod-{index:05}")
}

impl Space {
    /// The load in this namespace. Creates no objects.
    pub fn new(cluster: &Cluster, namespace: &str) -> Self {
        Self {
            claims: Api::namespaced(cluster.client(), namespace),
            pods: Api::namespaced(cluster.client(), namespace),
        }
    }

    /// Creates claims with the finalizer, a pod for each, and `others` pods that use no claim.
    pub async fn fill(&self, claims: usize, others: usize) -> Result<()> {
        each(claims, AT_ONCE, async |index| {
            let claim = serde_json::from_value(json!({
                "metadata": {"name": claim_name(index), "finalizers": ["kubernetes.io/pvc-protection"]},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
            }))?;
            self.claims.create(&PostParams::default(), &claim).await?;
            Ok(())
        })
        .await?;
        each(claims + others, AT_ONCE, async |index| {
            let volume = if index < claims {
                json!({"name": "data", "persistentVolumeClaim": {"claimName": claim_name(index)}})
            } else {
                json!({"name": "data", "emptyDir": {}})
            };
            let pod = serde_json::from_value(json!({
                "metadata": {"name": pod_name(index)},
                "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "main"}], "volumes": [volume]},
            }))?;
            self.pods.create(&PostParams::default(), &pod).await?;
            Ok(())
        })
        .await
        .map(drop)
    }
}
