//! The condition `Unused` of claims on the real control plane: what Kubernetes' own e2e tests of it
//! assert, and what its controller does besides.
//!
//! Source: `test/e2e/storage/csimock/csi_pvc_unused_condition.go` and
//! `pkg/controller/volume/pvcprotection` of Kubernetes 1.37.

mod differential;
mod handover;
mod report;
mod scene;

use crate::support::{BINARY, Space, bare, on_node};
use anyhow::{Context, Result, ensure};
use kube::{
    api::{Patch, PatchParams},
    core::params::DeleteParams,
};
use scene::{Scene, unused};
use serde_json::{Value, json};
use volume_warden_controlplane::{Warden, eventually};

#[tokio::test]
async fn the_condition_follows_the_pods_of_a_claim() -> Result<()> {
    let scene = Scene::new("unused-follows").await?;
    let space = &scene.0;
    let created = scene.bind("observed").await?;
    scene.is("observed", "True").await?;
    space.create_running_pod("web", "observed").await?;
    let used = scene.is("observed", "False").await?;
    space.create_running_pod("web-2", "observed").await?;
    space.delete_pod("web").await?;
    space.pod_is_gone("web").await?;
    ensure!(
        scene.is("observed", "False").await? == used,
        "one pod is left"
    );
    space.delete_pod("web-2").await?;
    let again = scene.is("observed", "True").await?;
    ensure!(again.last_transition_time >= used.last_transition_time);
    let history = scene.history("observed", &created).await?;
    ensure!(
        history == ["True", "False", "True"],
        "one write each: {history:?}"
    );
    Ok(())
}

#[tokio::test]
async fn finished_pods_do_not_use_a_claim_and_waiting_pods_do() -> Result<()> {
    let scene = Scene::new("unused-phases").await?;
    let space = &scene.0;
    scene.is("data", "True").await?;
    for (job, phase) in [("done", "Succeeded"), ("broken", "Failed")] {
        space.create_running_pod(job, "data").await?;
        scene.is("data", "False").await?;
        space.patch_pod_status(job, json!({"phase": phase})).await?;
        scene.is("data", "True").await?;
        space.delete_pod(job).await?;
        space.pod_is_gone(job).await?;
    }
    let nowhere = json!({"spec": {"nodeSelector": {"no-such-node": "true"}}});
    space.create_pod("waiting", "data", nowhere).await?;
    scene.is("data", "False").await?;
    Ok(())
}

/// The kubelet has stopped the containers of a pod that is being deleted, and something else keeps
/// the pod object.
#[tokio::test]
async fn a_deleted_pod_uses_a_claim_while_a_container_runs() -> Result<()> {
    let scene = Scene::new("unused-deleted").await?;
    let space = &scene.0;
    let mut held = on_node();
    held["metadata"] = json!({"finalizers": ["example.com/hold"]});
    space.create_pod("web", "data", held).await?;
    scene.is("data", "False").await?;
    let state = |state: &str| {
        json!({"containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "main", "imageID": "",
            "state": {state: {"exitCode": 0}}}]})
    };
    let running = json!({"containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "main",
        "imageID": "", "state": {"running": {}}}]});
    space.patch_pod_status("web", running).await?;
    space.pods.delete("web", &DeleteParams::default()).await?;
    scene.settled().await?;
    scene.is("data", "False").await?;
    space.patch_pod_status("web", state("terminated")).await?;
    scene.is("data", "True").await?;
    let free: Value = json!({"metadata": {"finalizers": null}});
    let merge = Patch::Merge(&free);
    space.pods.patch("web", &Default::default(), &merge).await?;
    Ok(())
}

#[tokio::test]
async fn only_living_bound_claims_get_the_condition() -> Result<()> {
    let scene = Scene::new("unused-bound").await?;
    let space = &scene.0;
    space.create_claim("pending").await?;
    scene.is("data", "True").await?;
    scene.settled().await?;
    ensure!(unused(&space.claims.get("pending").await?).is_none());
    let hold =
        json!({"metadata": {"finalizers": ["example.com/hold", "kubernetes.io/pvc-protection"]}});
    space.patch_claim("data", hold).await?;
    space.delete_claim("data").await?;
    // A pod without a node does not hold the claim, but uses it. A scheduler that has not seen the
    // deletion yet would give it one.
    let unscheduled = json!({"spec": {"schedulerName": "absent"}});
    space.create_pod("late", "data", unscheduled).await?;
    eventually("the claim is released", async || {
        anyhow::Ok(space.finalizers("data").await? == ["example.com/hold"])
    })
    .await?;
    scene.settled().await?;
    scene.is("data", "True").await?;
    space
        .patch_claim("data", json!({"metadata": {"finalizers": null}}))
        .await
}

#[tokio::test]
async fn other_conditions_stay() -> Result<()> {
    let scene = Scene::new("unused-others").await?;
    let space = &scene.0;
    scene.is("data", "True").await?;
    let resizing = json!({"status": {"conditions": [
        {"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": null}]}});
    let strategic = Patch::Strategic(&resizing);
    space
        .claims
        .patch_status("data", &Default::default(), &strategic)
        .await?;
    space.create_running_pod("web", "data").await?;
    scene.is("data", "False").await?;
    let status = space.claims.get("data").await?.status.context("a status")?;
    let types = status
        .conditions
        .into_iter()
        .flatten()
        .map(|each| each.type_);
    let mut types: Vec<String> = types.collect();
    types.sort();
    ensure!(types == ["FileSystemResizePending", "Unused"], "{types:?}");
    Ok(())
}

/// Only what Volume Warden wrote is removed.
#[tokio::test]
async fn conditions_are_removed_when_they_are_turned_off() -> Result<()> {
    let space = Space::new(bare().await?, "unused-off").await?;
    let scene = Scene(space);
    let space = &scene.0;
    for (claim, manager) in [("own", "volume-warden"), ("foreign", "example")] {
        scene.bind(claim).await?;
        eventually("the claim is bound", async || {
            let status = space.claims.get(claim).await?.status;
            ensure!(status.is_some_and(|status| status.phase.as_deref() == Some("Bound")));
            anyhow::Ok(())
        })
        .await?;
        let apply = PatchParams::apply(manager);
        let status = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "status": {"conditions": [{"type": "Unused", "status": "True"}]}});
        let status = Patch::Apply(status);
        space.claims.patch_status(claim, &apply, &status).await?;
    }
    let only = format!("--namespace={}", space.name);
    let warden = Warden::builder(&space.cluster, BINARY).name("unused-off");
    let _warden = warden
        .arg(only)
        .arg("--components=pvc-protection")
        .arg("--unused-condition=off")
        .start()
        .await?;
    eventually("the condition is removed", async || {
        ensure!(unused(&space.claims.get("own").await?).is_none());
        anyhow::Ok(())
    })
    .await?;
    ensure!(unused(&space.claims.get("foreign").await?).is_some());
    Ok(())
}

/// Volume Warden may write nothing else there, so its condition would become wrong.
#[tokio::test]
async fn an_excluded_namespace_loses_the_condition_and_gets_it_back() -> Result<()> {
    let scene = Scene::new("unused-excluded").await?;
    let space = &scene.0;
    scene.is("data", "True").await?;
    let label = async |label| {
        let label = ["label", "namespace", &space.name, label];
        space.cluster.kubectl(&label).await.map(drop)
    };
    label("volume-warden.dev/exclude=true").await?;
    eventually(
        "the condition is removed when a pod uses the claim",
        async || {
            let pod = format!(
                "web-{}",
                space.pods.list(&Default::default()).await?.items.len()
            );
            space.create_running_pod(&pod, "data").await?;
            ensure!(unused(&space.claims.get("data").await?).is_none());
            anyhow::Ok(())
        },
    )
    .await?;
    label("volume-warden.dev/exclude-").await?;
    eventually("the condition is written again", async || {
        let pod = format!(
            "web-{}",
            space.pods.list(&Default::default()).await?.items.len()
        );
        space.create_running_pod(&pod, "data").await?;
        let claim = space.claims.get("data").await?;
        ensure!(unused(&claim).is_some_and(|each| each.status == "False"));
        anyhow::Ok(())
    })
    .await
}
