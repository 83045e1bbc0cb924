//! The control plane that every other test relies on.

mod guardian;
mod interposer;
mod webhooks;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::Api;
use serde_json::json;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use volume_warden_controlplane::{Cluster, Component, Warden, eventually};

/// A cluster that the tests share. It is never dropped: its guardian ends it.
async fn shared() -> Result<&'static Cluster> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER
        .get_or_try_init(|| Cluster::without_in_tree().name("smoke").start())
        .await
}

fn config_map(name: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(
        json!({"metadata": {"name": name, "labels": {"test": name}}}),
    )?)
}

#[tokio::test]
async fn a_pod_with_a_claim_runs() -> Result<()> {
    let cluster = shared().await?;
    let manifest = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  containers: [{name: main, image: example.invalid/main}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"#;
    cluster
        .kubectl_with_stdin(&["apply", "-f", "-"], manifest)
        .await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    eventually("the pod runs", async || {
        let status = pods.get("user").await?.status.unwrap_or_default();
        ensure!(status.phase.as_deref() == Some("Running"), "{status:?}");
        anyhow::Ok(())
    })
    .await?;
    let claim = [
        "get",
        "pvc",
        "data",
        "-o",
        "jsonpath={.status.phase} {.spec.storageClassName} {.metadata.finalizers}",
    ];
    // Without a finalizer: no built-in controller protects the claim.
    eventually("the claim is bound", async || {
        let claim = cluster.kubectl(&claim).await?;
        ensure!(claim == "Bound standard ", "{claim}");
        Ok(())
    })
    .await?;
    let error = cluster
        .kubectl(&["get", "pod", "missing"])
        .await
        .err()
        .context("found a missing pod")?;
    assert!(error.to_string().contains("NotFound"), "{error}");
    Ok(())
}

#[tokio::test]
async fn nodes_stay_ready_and_calls_are_audited() -> Result<()> {
    let cluster = shared().await?;
    let mark = cluster.audit().mark()?;
    cluster.kubectl(&["get", "nodes"]).await?;
    cluster.kubectl(&["create", "configmap", "audited"]).await?;
    let calls = cluster
        .audit()
        .since(mark)?
        .by_user_agent("kubectl/")
        .by_user("admin");
    assert!(calls.lists("nodes") >= 1, "{calls:#?}");
    assert!(
        calls
            .writes()
            .iter()
            .any(|call| call.resource == "configmaps" && call.code == 201),
        "{calls:#?}"
    );
    let nodes = Api::<Node>::all(cluster.client())
        .list(&Default::default())
        .await?;
    assert_eq!(nodes.items.len(), 2);
    Ok(())
}

#[tokio::test]
async fn components_can_be_paused_killed_and_restarted() -> Result<()> {
    let cluster = Cluster::in_tree().name("restarts").nodes(1).start().await?;
    let nodes: Api<Node> = Api::all(cluster.client());
    cluster.pause(Component::Apiserver)?;
    assert!(
        timeout(Duration::from_millis(500), nodes.get("node-1"))
            .await
            .is_err(),
        "a paused API server answered"
    );
    cluster.resume(Component::Apiserver)?;
    nodes.get("node-1").await?;

    for component in [
        Component::Etcd,
        Component::Apiserver,
        Component::ControllerManager,
    ] {
        let before = cluster.process(component)?.pid();
        cluster.kill(component)?;
        assert!(!cluster.process(component)?.is_running());
        cluster.restart(component).await?;
        assert_ne!(cluster.process(component)?.pid(), before);
    }
    eventually("the node still exists", async || {
        nodes.get("node-1").await.map(drop)
    })
    .await?;
    assert!(cluster.process(Component::Apiserver)?.peak_memory_bytes()? > 1 << 20);

    let directory = cluster.dir().to_owned();
    let processes = cluster.process(Component::Etcd)?;
    cluster.pause(Component::Scheduler)?;
    cluster.stop().await;
    assert!(!processes.is_running());
    assert!(!directory.exists());
    Ok(())
}

#[tokio::test]
async fn a_warden_that_ends_is_reported_with_its_log() -> Result<()> {
    let cluster = shared().await?;
    let started = Warden::builder(cluster, "/bin/sh")
        .name("broken")
        .kubeconfig("/dev/null")
        .start()
        .await;
    let error = started.err().context("a shell became ready")?.to_string();
    assert!(
        error.contains("broken ended") && error.contains("run"),
        "{error}"
    );
    Ok(())
}
