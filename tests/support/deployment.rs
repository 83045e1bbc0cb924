//! The Deployment that the manifests install.

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use volume_warden_controlplane::Cluster;

/// The arguments that the Deployment in that namespace passes to `run`.
pub async fn arguments(cluster: &Cluster, namespace: &str) -> Result<Vec<String>> {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), namespace);
    let pod = deployments.get("volume-warden").await?.spec;
    let containers = pod.and_then(|spec| spec.template.spec).context("a pod")?;
    let container = containers.containers.into_iter().next();
    let arguments = container.context("a container")?.args.unwrap_or_default();
    let of_run = arguments.into_iter().filter(|argument| argument != "run");
    Ok(of_run.collect())
}
