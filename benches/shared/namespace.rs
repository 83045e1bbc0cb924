//! Namespaces that pods can be created in.

use anyhow::Result;
use volume_warden_controlplane::{Cluster, eventually};

/// Creates a namespace, and waits for its ServiceAccount: pods cannot be created without it.
pub async fn create(cluster: &Cluster, name: &str) -> Result<()> {
    cluster.kubectl(&["create", "namespace", name]).await?;
    eventually("the namespace has a service account", async || {
        let account = ["get", "serviceaccount", "default", "-n", name];
        cluster.kubectl(&account).await.map(drop)
    })
    .await
}
