//! The condition on two clusters of Kubernetes 1.37: kube-controller-manager writes it on one, and
//! Volume Warden on the other. The same steps lead to the same conditions and transitions.

use super::{Fixture, unused_condition};
use crate::support::{BINARY, Running, Space, on_node, repository, webhook_timeouts};
use anyhow::{Context, Result, ensure};
use futures::future::try_join;
use kube::api::Patch;
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden_controlplane::{Cluster, ClusterBuilder, Component, Kubernetes, Warden};

/// A namespace on each cluster.
struct Pair {
    in_tree: Fixture,
    warden: Fixture,
    /// The running Volume Warden; none while it is stopped.
    writer: Option<Warden>,
}

async fn fixture(cluster: ClusterBuilder, label: &str) -> Result<Fixture> {
    let cluster = cluster.kubernetes(Kubernetes::V1_37).name(label);
    let running = Arc::new(Running::from(cluster.start().await?));
    Ok(Fixture(Space::new(running, label).await?))
}

impl Pair {
    async fn new() -> Result<Self> {
        let in_tree = fixture(Cluster::in_tree(), "condition-in-tree");
        let warden = fixture(Cluster::without_in_tree(), "condition-warden");
        let (in_tree, warden) = try_join(in_tree, warden).await?;
        let cluster = &warden.0.cluster;
        cluster
            .apply_kustomization(&repository().join("manifests"))
            .await?;
        webhook_timeouts::raise_webhook_timeouts(cluster, None).await?;
        let mut pair = Self {
            in_tree,
            warden,
            writer: None,
        };
        pair.start_warden().await?;
        Ok(pair)
    }

    async fn start_warden(&mut self) -> Result<()> {
        let builder = Warden::builder(&self.warden.0.cluster, BINARY).serving();
        // With the same identity, a restart need not wait until the Lease expires.
        let builder = builder.arg("--leader-elect-identity=only");
        self.writer = Some(builder.start().await?);
        Ok(())
    }

    async fn both<T>(&self, act: impl AsyncFn(&Fixture) -> Result<T>) -> Result<(T, T)> {
        let in_tree = async { act(&self.in_tree).await.context("in-tree") };
        let warden = async { act(&self.warden).await.context("Volume Warden") };
        try_join(in_tree, warden).await
    }

    /// Waits until both conditions have this status, and checks that reason and message match it.
    async fn has_status(&self, claim: &str, status: &str) -> Result<()> {
        let has_status = self.both(async |fixture| fixture.has_status(claim, status).await);
        has_status.await.map(drop)
    }

    async fn status_of_pod(&self, pod: &str, status: Value) -> Result<()> {
        let patch = async |fixture: &Fixture| fixture.0.patch_pod_status(pod, status.clone()).await;
        self.both(patch).await.map(drop)
    }

    /// Stops both writers, runs `act` on both clusters, and starts both writers again.
    async fn while_stopped(&mut self, act: impl AsyncFn(&Fixture) -> Result<()>) -> Result<()> {
        let writer = self.writer.take().context("a Volume Warden")?;
        writer.stop().await?;
        let controllers = Component::ControllerManager;
        self.in_tree.0.cluster.kill(controllers)?;
        self.both(act).await?;
        self.in_tree.0.cluster.restart(controllers).await?;
        self.start_warden().await
    }
}

fn waiting() -> Value {
    json!({"spec": {"nodeSelector": {"example.com/none": "here"}}})
}

/// The status of the only container.
fn container(state: Value) -> Value {
    let status = json!({"name": "main", "ready": false, "restartCount": 0, "image": "main",
        "imageID": "", "state": state});
    json!({"containerStatuses": [status]})
}

#[tokio::test]
#[ignore = "builds Kubernetes 1.37"]
async fn both_writers_write_the_same() -> Result<()> {
    let mut pair = Pair::new().await?;
    let begin = async |fixture: &Fixture| {
        let created = fixture.bind("data").await?;
        fixture.watch("data", &created).await
    };
    let versions = pair.both(begin).await?;
    pair.has_status("data", "True").await?;
    pods_of_each_phase(&pair).await?;
    a_pod_that_is_being_deleted(&pair).await?;
    an_ephemeral_volume(&pair).await?;

    // A claim loses its condition, and a pod is created, while no writer runs.
    pair.both(async |fixture| fixture.bind("old").await).await?;
    pair.has_status("old", "True").await?;
    pair.while_stopped(async |fixture| {
        let none = json!({"status": {"conditions": null}});
        let (patch, claims) = (Patch::Merge(&none), &fixture.0.claims);
        claims
            .patch_status("old", &Default::default(), &patch)
            .await?;
        ensure!(unused_condition(&claims.get("old").await?).is_none());
        let late = fixture.0.create_pod("late", "data", waiting());
        late.await.map(drop)
    })
    .await?;
    pair.has_status("old", "True").await?;
    pair.has_status("data", "False").await?;

    let in_tree = pair.in_tree.history("data", versions.0).await?;
    let warden = pair.warden.history("data", versions.1).await?;
    ensure!(
        in_tree == warden,
        "in-tree: {in_tree:?}, Volume Warden: {warden:?}"
    );
    let changes = ["True", "False"].repeat(5);
    ensure!(warden == changes, "one write for each change: {warden:?}");
    Ok(())
}

/// Waiting, running and finished pods: two changes each.
async fn pods_of_each_phase(pair: &Pair) -> Result<()> {
    let waits = async |fixture: &Fixture| fixture.0.create_pod("waits", "data", waiting()).await;
    pair.both(waits).await?;
    pair.has_status("data", "False").await?;
    pair.both(async |fixture| fixture.0.delete_pod("waits").await)
        .await?;
    pair.has_status("data", "True").await?;
    for (job, phase) in [("done", "Succeeded"), ("broken", "Failed")] {
        pair.both(async |fixture| fixture.0.create_running_pod(job, "data").await)
            .await?;
        pair.has_status("data", "False").await?;
        pair.status_of_pod(job, json!({"phase": phase})).await?;
        pair.has_status("data", "True").await?;
        let delete_pod = async |fixture: &Fixture| {
            fixture.0.delete_pod(job).await?;
            fixture.0.pod_is_gone(job).await
        };
        pair.both(delete_pod).await?;
    }
    Ok(())
}

/// A finalizer keeps the pod object. The pod uses the claim as long as its containers run.
async fn a_pod_that_is_being_deleted(pair: &Pair) -> Result<()> {
    let mut pod = on_node();
    pod["metadata"] = json!({"finalizers": ["example.com/hold"]});
    let pod = &pod;
    pair.both(async |fixture| fixture.0.create_pod("web", "data", pod.clone()).await)
        .await?;
    pair.has_status("data", "False").await?;
    let running = container(json!({"running": {}}));
    pair.status_of_pod("web", running).await?;
    pair.both(async |fixture| Ok(fixture.0.pods.delete("web", &Default::default()).await?))
        .await?;
    let terminated = container(json!({"terminated": {"exitCode": 0}}));
    pair.status_of_pod("web", terminated).await?;
    pair.has_status("data", "True").await?;
    let no_finalizers = json!({"metadata": {"finalizers": null}});
    let no_finalizers = Patch::Merge(&no_finalizers);
    let remove_finalizers = async |fixture: &Fixture| {
        let pods = &fixture.0.pods;
        Ok(pods
            .patch("web", &Default::default(), &no_finalizers)
            .await?)
    };
    pair.both(remove_finalizers).await.map(drop)
}

/// The claim of an ephemeral volume.
async fn an_ephemeral_volume(pair: &Pair) -> Result<()> {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}}});
    let own = json!({"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}});
    let mut pod = on_node();
    pod["spec"]["volumes"] = json!([own]);
    let pod = &pod;
    pair.both(async |fixture| {
        fixture.create_volume("p-own").await?;
        fixture.0.create_pod("p", "data", pod.clone()).await
    })
    .await?;
    pair.has_status("p-own", "False").await?;
    pair.status_of_pod("p", json!({"phase": "Succeeded"}))
        .await?;
    pair.has_status("p-own", "True").await
}
