//! The manifests of this repository, applied unchanged.

mod alone;
mod one_namespace;

use crate::{
    authentication::all_published,
    fresh,
    support::{
        BINARY, Space, bare,
        deployment::arguments,
        manifests::{self, rendered},
        repository, volume,
    },
};
use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use std::{collections::BTreeSet, path::Path};
use volume_warden_controlplane::{Cluster, Warden, eventually};

/// Applies a kustomization that installs Volume Warden in that namespace, and runs it as deployed.
async fn install_and_run(
    cluster: &Cluster,
    kustomization: &str,
    namespace: &str,
) -> Result<Warden> {
    manifests::apply(cluster, &repository().join(kustomization)).await?;
    as_deployed(cluster, namespace).await
}

/// Runs Volume Warden as the Deployment in that namespace would: with its arguments and the
/// permissions of its service account, behind its Service.
pub async fn as_deployed(cluster: &Cluster, namespace: &str) -> Result<Warden> {
    let warden = Warden::builder(cluster, BINARY)
        .name(namespace)
        .namespace(namespace);
    let arguments = arguments(cluster, namespace).await?;
    let warden = arguments
        .into_iter()
        .fold(warden, |warden, argument| warden.arg(argument));
    warden.serving().start().await
}

/// Waits until all pods of the Deployment are available, which shows that they were admitted.
pub async fn replicas_are_available(cluster: &Cluster) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "volume-warden");
    eventually("the deployment is available", async || {
        let status = deployments.get("volume-warden").await?.status;
        let available = status.and_then(|status| status.available_replicas);
        ensure!(available == Some(2), "{available:?}");
        Ok(())
    })
    .await
}

/// Checks that applying a kustomization again changes nothing.
pub async fn applying_again_changes_nothing(cluster: &Cluster, kustomization: &Path) -> Result<()> {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(cluster.client(), "volume-warden");
    let generation = async || -> Result<Option<i64>> {
        Ok(budgets.get("volume-warden").await?.metadata.generation)
    };
    let before = generation().await?;
    let output = cluster.apply_kustomization(kustomization).await?;
    // kubectl always sends the selector of a PodDisruptionBudget as a whole, and reports a change.
    let always_reported = "poddisruptionbudget.policy/volume-warden configured";
    let changed: Vec<_> = output
        .lines()
        .filter(|line| !line.ends_with(" unchanged") && *line != always_reported)
        .collect();
    ensure!(changed.is_empty() && !output.is_empty(), "{changed:?}");
    assert_eq!(generation().await?, before);
    Ok(())
}

/// `manifests/install.yaml` equals the output of `kubectl kustomize manifests`.
#[tokio::test]
async fn the_rendered_default_is_up_to_date() -> Result<()> {
    let rendered = rendered(&repository().join("manifests")).await?;
    let shipped = std::fs::read_to_string(repository().join("manifests/install.yaml"))?;
    ensure!(
        rendered.trim() == shipped.trim(),
        "render it again: kubectl kustomize manifests > manifests/install.yaml"
    );
    Ok(())
}

/// Applying the manifests twice changes nothing, even after Volume Warden has written its caBundle.
#[tokio::test]
async fn applying_twice_changes_nothing() -> Result<()> {
    let (cluster, manifests) = (fresh::api_server().await?, repository().join("manifests"));
    cluster.apply_kustomization(&manifests).await?;
    let _warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    all_published(&cluster).await?;
    applying_again_changes_nothing(&cluster, &manifests).await?;
    let bundle = "jsonpath={.webhooks[*].clientConfig.caBundle}";
    for (kind, name) in [
        (
            "mutatingwebhookconfiguration",
            "volume-warden-pvc-protection",
        ),
        (
            "validatingwebhookconfiguration",
            "volume-warden-pvc-protection-guard",
        ),
        (
            "mutatingwebhookconfiguration",
            "volume-warden-pv-protection",
        ),
        (
            "validatingwebhookconfiguration",
            "volume-warden-pv-protection-guard",
        ),
    ] {
        ensure!(
            !cluster
                .kubectl(&["get", kind, name, "-o", bundle])
                .await?
                .is_empty(),
            "{name} has no caBundle"
        );
    }
    Ok(())
}

/// The namespace enforces the Pod Security Standard `restricted`; its pods exist, so they passed.
#[tokio::test]
async fn pods_pass_the_restricted_standard() -> Result<()> {
    let cluster = bare().await?;
    let enforced = "jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}";
    assert_eq!(
        cluster
            .kubectl(&["get", "namespace", "volume-warden", "-o", enforced])
            .await?,
        "restricted"
    );
    replicas_are_available(&cluster).await
}

/// The two replicas run on two nodes, and the PodDisruptionBudget allows the eviction of one of
/// them. The manifests create no PriorityClass that a tenant could use.
#[tokio::test]
async fn the_replicas_are_spread_and_kept() -> Result<()> {
    let cluster = bare().await?;
    replicas_are_available(&cluster).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "volume-warden");
    let pods = pods.list(&ListParams::default()).await?.items.into_iter();
    let nodes: BTreeSet<_> = pods.filter_map(|pod| pod.spec?.node_name).collect();
    assert_eq!(nodes.len(), 2);
    let classes = ["get", "priorityclass", "-o", "name"];
    let classes = cluster.kubectl(&classes).await?;
    ensure!(!classes.contains("volume-warden"), "{classes}");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(cluster.client(), "volume-warden");
    eventually("one replica may be evicted", async || {
        let budgets = budgets.list(&ListParams::default()).await?.items;
        let statuses = budgets.into_iter().map(|budget| budget.status);
        let allowed: Vec<_> = statuses
            .map(|status| status.map(|status| status.disruptions_allowed))
            .collect();
        ensure!(allowed == [Some(1)], "{allowed:?}");
        Ok(())
    })
    .await
}

/// In the cert-manager overlay, the Deployment mounts the Secret that the Certificate names, and
/// the Certificate has the DNS name that the API server verifies.
#[tokio::test]
async fn the_cert_manager_overlay_is_consistent() -> Result<()> {
    let overlay = repository().join("manifests/overlays/cert-manager");
    let rendered = rendered(&overlay).await?;
    let injected = rendered
        .matches("cert-manager.io/inject-ca-from: volume-warden/volume-warden")
        .count();
    let configurations = rendered.matches("WebhookConfiguration\n").count();
    assert_eq!((injected, configurations), (10, 10));
    assert_eq!(
        rendered.matches("secretName: volume-warden-tls").count(),
        2,
        "the Certificate and the Deployment name the same Secret"
    );
    for line in [
        "- volume-warden.volume-warden.svc\n",
        "--tls-cert-file=/etc/volume-warden/tls/tls.crt",
        "mountPath: /etc/volume-warden/tls",
    ] {
        ensure!(rendered.contains(line), "no {line}");
    }
    let secrets = "resources:\n  - secrets";
    let path_secret = format!("resourceNames:\n  - volume-warden-serving\n  {secrets}");
    ensure!(
        rendered.contains(&path_secret) && rendered.matches(secrets).count() == 1,
        "with cert-manager, no permission to any other Secret is needed"
    );
    Ok(())
}

/// No call of Volume Warden is forbidden: the permissions in the manifests are sufficient.
#[tokio::test]
async fn no_call_of_volume_warden_is_forbidden() -> Result<()> {
    let cluster = fresh::cluster().await?;
    manifests::apply(&cluster, &repository().join("manifests")).await?;
    let mark = cluster.audit().mark()?;
    let _warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    let space = Space::new(cluster.shared(), "permissions").await?;
    space.create_claim("data").await?;
    space
        .patch_claim("data", json!({"metadata": {"finalizers": null}}))
        .await?;
    space.claim_is_protected("data").await?;
    space.delete_claim("data").await?;
    space.claim_is_gone("data").await?;
    let name = format!("pv-{}", space.name);
    space
        .volumes
        .create(&PostParams::default(), &volume(&name, json!({}))?)
        .await?;
    space
        .volumes
        .delete(&name, &DeleteParams::default())
        .await?;
    eventually("the volume is deleted", async || {
        anyhow::Ok(space.volumes.get_opt(&name).await?.is_none())
    })
    .await?;
    let calls = cluster.audit().since(mark)?;
    let calls = calls.by_user_agent("volume-warden/");
    ensure!(
        !calls.is_empty(),
        "the audit log contains no call of Volume Warden"
    );
    let forbidden: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
    ensure!(forbidden.is_empty(), "{forbidden:?}");
    Ok(())
}
