//! The Deployment that the manifests install.

use anyhow::Result;
use volume_warden_controlplane::Cluster;

/// The arguments that the Deployment in that namespace passes to `run`.
pub async fn arguments(cluster: &Cluster, namespace: &str) -> Result<Vec<String>> {
    let path = "jsonpath={.spec.template.spec.containers[0].args[*]}";
    let deployment = ["get", "deployment", "volume-warden", "-n", namespace];
    let arguments = cluster
        .kubectl(&[&deployment[..], &["-o", path]].concat())
        .await?;
    let arguments = arguments
        .split_whitespace()
        .filter(|argument| *argument != "run");
    Ok(arguments.map(str::to_owned).collect())
}
