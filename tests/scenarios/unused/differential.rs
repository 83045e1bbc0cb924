//! The condition on two clusters of Kubernetes 1.37: kube-controller-manager writes it on one, and
//! Volume Warden on the other. The same steps lead to the same conditions and transitions.

use super::{Scene, unused};
use crate::support::{BINARY, Running, Space, on_node, patience, repository};
use anyhow::{Context, Result, ensure};
use futures::future::try_join;
use kube::api::Patch;
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden_controlplane::{Cluster, ClusterBuilder, Component, Kubernetes, Warden};

/// A namespace on each cluster.
struct Pair {
    in_tree: Scene,
    warden: Scene,
    /// Until it is stopped.
    writer: Option<Warden>,
}

async fn scene(cluster: ClusterBuilder, label: &str) -> Result<Scene> {
    let cluster = cluster.kubernetes(Kubernetes::V1_37).name(label);
    let running = Arc::new(Running::from(cluster.start().await?));
    Ok(Scene(Space::new(running, label).await?))
}

impl Pair {
    async fn new() -> Result<Self> {
        let in_tree = scene(Cluster::in_tree(), "condition-in-tree");
        let warden = scene(Cluster::without_in_tree(), "condition-warden");
        let (in_tree, warden) = try_join(in_tree, warden).await?;
        let cluster = &warden.0.cluster;
        cluster
            .apply_kustomization(&repository().join("manifests"))
            .await?;
        patience::wait_for_webhooks(cluster, None).await?;
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
        // One identity, so that a start need not wait until the Lease expires.
        let builder = builder.arg("--leader-elect-identity=only");
        self.writer = Some(builder.start().await?);
        Ok(())
    }

    async fn both<T>(&self, act: impl AsyncFn(&Scene) -> Result<T>) -> Result<(T, T)> {
        let in_tree = async { act(&self.in_tree).await.context("in-tree") };
        let warden = async { act(&self.warden).await.context("Volume Warden") };
        try_join(in_tree, warden).await
    }

    /// Waits until both conditions have this status; reason and message are the same then.
    async fn is(&self, claim: &str, status: &str) -> Result<()> {
        let is = self.both(async |scene| scene.is(claim, status).await);
        is.await.map(drop)
    }

    async fn status_of_pod(&self, pod: &str, status: Value) -> Result<()> {
        let patch = async |scene: &Scene| scene.0.patch_pod_status(pod, status.clone()).await;
        self.both(patch).await.map(drop)
    }

    /// Both writers stop, `act` happens on both clusters, and both start again.
    async fn while_away(&mut self, act: impl AsyncFn(&Scene) -> Result<()>) -> Result<()> {
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
    let began = pair.both(async |scene| scene.bind("data").await).await?;
    pair.is("data", "True").await?;
    pods_of_each_phase(&pair).await?;
    a_pod_that_is_being_deleted(&pair).await?;
    an_ephemeral_volume(&pair).await?;

    // A claim that is older than the writer, and a pod that came while no writer looked.
    pair.both(async |scene| scene.bind("old").await).await?;
    pair.is("old", "True").await?;
    pair.while_away(async |scene| {
        let none = json!({"status": {"conditions": null}});
        let (patch, claims) = (Patch::Merge(&none), &scene.0.claims);
        claims
            .patch_status("old", &Default::default(), &patch)
            .await?;
        ensure!(unused(&claims.get("old").await?).is_none());
        let late = scene.0.create_pod("late", "data", waiting());
        late.await.map(drop)
    })
    .await?;
    pair.is("old", "True").await?;
    pair.is("data", "False").await?;

    let in_tree = pair.in_tree.history("data", &began.0).await?;
    let warden = pair.warden.history("data", &began.1).await?;
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
    let waits = async |scene: &Scene| scene.0.create_pod("waits", "data", waiting()).await;
    pair.both(waits).await?;
    pair.is("data", "False").await?;
    pair.both(async |scene| scene.0.delete_pod("waits").await)
        .await?;
    pair.is("data", "True").await?;
    for (job, phase) in [("done", "Succeeded"), ("broken", "Failed")] {
        pair.both(async |scene| scene.0.create_running_pod(job, "data").await)
            .await?;
        pair.is("data", "False").await?;
        pair.status_of_pod(job, json!({"phase": phase})).await?;
        pair.is("data", "True").await?;
        let gone = async |scene: &Scene| {
            scene.0.delete_pod(job).await?;
            scene.0.pod_is_gone(job).await
        };
        pair.both(gone).await?;
    }
    Ok(())
}

/// The pod object stays because of a finalizer; what counts is whether its containers run.
async fn a_pod_that_is_being_deleted(pair: &Pair) -> Result<()> {
    let mut held = on_node();
    held["metadata"] = json!({"finalizers": ["example.com/hold"]});
    let held = &held;
    pair.both(async |scene| scene.0.create_pod("web", "data", held.clone()).await)
        .await?;
    pair.is("data", "False").await?;
    let running = container(json!({"running": {}}));
    pair.status_of_pod("web", running).await?;
    pair.both(async |scene| Ok(scene.0.pods.delete("web", &Default::default()).await?))
        .await?;
    let terminated = container(json!({"terminated": {"exitCode": 0}}));
    pair.status_of_pod("web", terminated).await?;
    pair.is("data", "True").await?;
    let free = json!({"metadata": {"finalizers": null}});
    let free = Patch::Merge(&free);
    let freed = async |scene: &Scene| {
        let pods = &scene.0.pods;
        Ok(pods.patch("web", &Default::default(), &free).await?)
    };
    pair.both(freed).await.map(drop)
}

/// The claim of a pod's own volume.
async fn an_ephemeral_volume(pair: &Pair) -> Result<()> {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}}});
    let own = json!({"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}});
    let mut pod = on_node();
    pod["spec"]["volumes"] = json!([own]);
    let pod = &pod;
    pair.both(async |scene| {
        scene.disk("p-own").await?;
        scene.0.create_pod("p", "data", pod.clone()).await
    })
    .await?;
    pair.is("p-own", "False").await?;
    pair.status_of_pod("p", json!({"phase": "Succeeded"}))
        .await?;
    pair.is("p-own", "True").await
}
