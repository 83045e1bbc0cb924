//! The claims whose finalizers are removed in bulk.

use crate::each::{AT_ONCE, each};
use anyhow::Result;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::Cluster;

/// Claims with the finalizer that no pod uses, in the namespace of the sets, so that fairness
/// between namespaces has no effect.
pub struct Bulk {
    claims: Api<PersistentVolumeClaim>,
    count: usize,
}

fn name(index: usize) -> String {
    format!("bulk{index:05}")
}

impl Bulk {
    /// The load of `count` claims. Creates no objects.
    pub fn new(cluster: &Cluster, count: usize) -> Self {
        Self {
            claims: Api::namespaced(cluster.client(), crate::sets::NAMESPACE),
            count,
        }
    }

    pub async fn fill(&self) -> Result<()> {
        each(self.count, AT_ONCE, async |index| {
            let claim = serde_json::from_value(json!({
                "metadata": {
                    "name": name(index), "labels": {"bulk": "yes"}, "finalizers": ["kubernetes.io/pvc-protection"],
                },
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
            }))?;
            self.claims.create(&PostParams::default(), &claim).await?;
            Ok(())
        })
        .await
        .map(drop)
    }

    pub async fn delete(&self) -> Result<()> {
        each(self.count, AT_ONCE, async |index| {
            let parameters = DeleteParams::default();
            self.claims.delete(&name(index), &parameters).await?;
            Ok(())
        })
        .await
        .map(drop)
    }

    /// The number of claims that still exist.
    pub async fn left(&self) -> Result<usize> {
        let bulk = ListParams::default().labels("bulk=yes");
        Ok(self.claims.list_metadata(&bulk).await?.items.len())
    }
}
