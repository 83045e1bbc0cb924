//! pvc-provisioner for one namespace, with permissions in that namespace only.

use super::install_and_run;
use crate::support::in_tree;
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, ServiceAccount};
use kube::{Api, ResourceExt, api::ListParams};
use volume_warden_controlplane::{Cluster, eventually};

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  generateName: build-
  annotations:
    dynamic-pvc-provisioner.kubernetes.io/cache.enabled: "true"
    dynamic-pvc-provisioner.kubernetes.io/cache.pvc: |
      {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
       "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}}}
spec:
  containers: [{name: main, image: main}]
  volumes: [{name: cache, persistentVolumeClaim: {claimName: cache}}]
"#;
const ACCOUNT: &str = "system:serviceaccount:pvc-provisioner:volume-warden";

async fn create_pod(cluster: &Cluster, namespace: &str) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), namespace);
    eventually("the service account of the pod exists", async || {
        accounts.get("default").await.map(drop)
    })
    .await?;
    let create = ["create", "-n", namespace, "-f", "-"];
    cluster.kubectl_with_stdin(&create, POD).await?;
    Ok(())
}

fn claims(cluster: &Cluster, namespace: &str) -> Api<PersistentVolumeClaim> {
    Api::namespaced(cluster.client(), namespace)
}

/// DP-30, with `docs/one-namespace`: no claim is created for a pod in another namespace, and no
/// request is forbidden.
#[tokio::test]
async fn rights_in_one_namespace_are_enough() -> Result<()> {
    let cluster = in_tree().await?;
    for namespace in ["builds", "not-builds"] {
        cluster.kubectl(&["create", "namespace", namespace]).await?;
    }
    let warden = install_and_run(&cluster, "docs/one-namespace", "pvc-provisioner").await?;
    create_pod(&cluster, "not-builds").await?;
    create_pod(&cluster, "builds").await?;
    let created = claims(&cluster, "builds");
    eventually("the pod owns its claim", async || {
        let claim = created.get("cache").await?;
        let owner = claim.owner_references().first();
        ensure!(
            owner.is_some_and(|owner| owner.kind == "Pod"),
            "its owner: {owner:?}"
        );
        Ok(())
    })
    .await?;
    let others = claims(&cluster, "not-builds");
    let others = others.list(&ListParams::default()).await?.items;
    ensure!(others.is_empty(), "{others:?}");
    warden.stop().await?;
    let calls = cluster.audit().all()?.by_user(ACCOUNT);
    let forbidden: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
    ensure!(forbidden.is_empty() && !calls.is_empty(), "{forbidden:?}");
    Ok(())
}
