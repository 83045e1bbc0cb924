//! The removals.

use crate::each::{AT_ONCE, each};
use anyhow::Result;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::Cluster;

/// Claims with the finalizer that no pod uses, in the namespace of the sets: turns between namespaces do not help.
pub struct Bulk {
    claims: Api<PersistentVolumeClaim>,
    count: usize,
}

fn name(index: usize) -> String {
    format!("bulk{index:05}")
}

impl Bulk {
    /// So many. Nothing is created yet.
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

    /// How many are still there.
    pub async fn left(&self) -> Result<usize> {
        let ours = ListParams::default().labels("bulk=yes");
        Ok(self.claims.list_metadata(&ours).await?.items.len())
    }
}
