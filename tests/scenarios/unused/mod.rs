//! The condition `Unused` of claims on the real control plane: the assertions of Kubernetes' own
//! e2e tests, and the other behaviour of Kubernetes' controller.
//!
//! Source: `test/e2e/storage/csimock/csi_pvc_unused_condition.go` and
//! `pkg/controller/volume/pvcprotection` of Kubernetes 1.37.

mod differential;
mod fixture;
mod handover;
mod report;

use crate::support::{BINARY, Space, bare, on_node};
use anyhow::{Context, Result, ensure};
use fixture::{Fixture, unused_condition};
use kube::{
    api::{Patch, PatchParams},
    core::params::DeleteParams,
};
use serde_json::{Value, json};
use volume_warden_controlplane::{Warden, eventually};

#[tokio::test]
async fn the_condition_follows_the_pods_of_a_claim() -> Result<()> {
    let fixture = Fixture::new("unused-follows").await?;
    let space = &fixture.0;
    let created = fixture.bind("observed").await?;
    let versions = fixture.watch("observed", &created).await?;
    fixture.has_status("observed", "True").await?;
    space.create_running_pod("web", "observed").await?;
    let used = fixture.has_status("observed", "False").await?;
    space.create_running_pod("web-2", "observed").await?;
    space.delete_pod("web").await?;
    space.pod_is_gone("web").await?;
    ensure!(
        fixture.has_status("observed", "False").await? == used,
        "the condition changed although a pod is left"
    );
    space.delete_pod("web-2").await?;
    let again = fixture.has_status("observed", "True").await?;
    ensure!(again.last_transition_time >= used.last_transition_time);
    let history = fixture.history("observed", versions).await?;
    ensure!(
        history == ["True", "False", "True"],
        "one write each: {history:?}"
    );
    Ok(())
}

#[tokio::test]
async fn finished_pods_do_not_use_a_claim_and_waiting_pods_do() -> Result<()> {
    let fixture = Fixture::new("unused-phases").await?;
    let space = &fixture.0;
    fixture.has_status("data", "True").await?;
    for (job, phase) in [("done", "Succeeded"), ("broken", "Failed")] {
        space.create_running_pod(job, "data").await?;
        fixture.has_status("data", "False").await?;
        space.patch_pod_status(job, json!({"phase": phase})).await?;
        fixture.has_status("data", "True").await?;
        space.delete_pod(job).await?;
        space.pod_is_gone(job).await?;
    }
    let nowhere = json!({"spec": {"nodeSelector": {"no-such-node": "true"}}});
    space.create_pod("waiting", "data", nowhere).await?;
    fixture.has_status("data", "False").await?;
    Ok(())
}

/// A finalizer keeps the pod object after the kubelet has stopped the containers of the pod.
#[tokio::test]
async fn a_deleted_pod_uses_a_claim_while_a_container_runs() -> Result<()> {
    let fixture = Fixture::new("unused-deleted").await?;
    let space = &fixture.0;
    let mut pod = on_node();
    pod["metadata"] = json!({"finalizers": ["example.com/hold"]});
    space.create_pod("web", "data", pod).await?;
    fixture.has_status("data", "False").await?;
    let state = |state: &str| {
        json!({"containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "main", "imageID": "",
            "state": {state: {"exitCode": 0}}}]})
    };
    let running = json!({"containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "main",
        "imageID": "", "state": {"running": {}}}]});
    space.patch_pod_status("web", running).await?;
    space.pods.delete("web", &DeleteParams::default()).await?;
    fixture.settled().await?;
    fixture.has_status("data", "False").await?;
    space.patch_pod_status("web", state("terminated")).await?;
    fixture.has_status("data", "True").await?;
    let no_finalizers: Value = json!({"metadata": {"finalizers": null}});
    let merge = Patch::Merge(&no_finalizers);
    space.pods.patch("web", &Default::default(), &merge).await?;
    Ok(())
}

#[tokio::test]
async fn only_bound_claims_that_are_not_being_deleted_get_the_condition() -> Result<()> {
    let fixture = Fixture::new("unused-bound").await?;
    let space = &fixture.0;
    space.create_claim("pending").await?;
    fixture.has_status("data", "True").await?;
    fixture.settled().await?;
    ensure!(unused_condition(&space.claims.get("pending").await?).is_none());
    let finalizers =
        json!({"metadata": {"finalizers": ["example.com/hold", "kubernetes.io/pvc-protection"]}});
    space.patch_claim("data", finalizers).await?;
    space.delete_claim("data").await?;
    // A pod without a node does not hold the finalizer of the claim, but uses the claim. No
    // scheduler handles the pod: one that has not received the deletion yet would assign a node.
    let unscheduled = json!({"spec": {"schedulerName": "absent"}});
    space.create_pod("late", "data", unscheduled).await?;
    eventually("the claim is released", async || {
        anyhow::Ok(space.finalizers("data").await? == ["example.com/hold"])
    })
    .await?;
    fixture.settled().await?;
    fixture.has_status("data", "True").await?;
    space
        .patch_claim("data", json!({"metadata": {"finalizers": null}}))
        .await
}

#[tokio::test]
async fn other_conditions_stay() -> Result<()> {
    let fixture = Fixture::new("unused-others").await?;
    let space = &fixture.0;
    fixture.has_status("data", "True").await?;
    let resizing = json!({"status": {"conditions": [
        {"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": null}]}});
    let strategic = Patch::Strategic(&resizing);
    space
        .claims
        .patch_status("data", &Default::default(), &strategic)
        .await?;
    space.create_running_pod("web", "data").await?;
    fixture.has_status("data", "False").await?;
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

/// Creates a bound claim whose condition this field manager has written.
async fn bind_with_condition(fixture: &Fixture, claim: &str, manager: &str) -> Result<()> {
    let space = &fixture.0;
    fixture.bind(claim).await?;
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
    Ok(())
}

async fn condition_is_removed(space: &Space, claim: &str) -> Result<()> {
    eventually("the condition is removed", async || {
        ensure!(unused_condition(&space.claims.get(claim).await?).is_none());
        anyhow::Ok(())
    })
    .await
}

/// Only the conditions that Volume Warden wrote are removed.
#[tokio::test]
async fn conditions_are_removed_when_they_are_turned_off() -> Result<()> {
    let space = Space::new(bare().await?, "unused-off").await?;
    let fixture = Fixture(space);
    let space = &fixture.0;
    bind_with_condition(&fixture, "own", "volume-warden").await?;
    bind_with_condition(&fixture, "foreign", "example").await?;
    let before = space.claims.get("foreign").await?;
    let only = format!("--namespace={}", space.name);
    let warden = Warden::builder(&space.cluster, BINARY).name("unused-off");
    let _warden = warden
        .arg(only)
        .arg("--components=pvc-protection")
        .arg("--unused-condition=off")
        .start()
        .await?;
    condition_is_removed(space, "own").await?;
    // When the condition of a later claim is removed, `foreign` has been reconciled, too.
    bind_with_condition(&fixture, "later", "volume-warden").await?;
    condition_is_removed(space, "later").await?;
    let after = space.claims.get("foreign").await?;
    ensure!(unused_condition(&after).is_some(), "{after:?}");
    // The resourceVersion may differ: Volume Warden adds the finalizer of the claim.
    ensure!(
        unused_condition(&after) == unused_condition(&before),
        "{after:?}"
    );
    Ok(())
}

/// Volume Warden does not update conditions in an excluded namespace, so it removes its condition
/// before the condition becomes wrong.
#[tokio::test]
async fn an_excluded_namespace_loses_the_condition_and_gets_it_back() -> Result<()> {
    let fixture = Fixture::new("unused-excluded").await?;
    let space = &fixture.0;
    fixture.has_status("data", "True").await?;
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
            ensure!(unused_condition(&space.claims.get("data").await?).is_none());
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
        ensure!(unused_condition(&claim).is_some_and(|each| each.status == "False"));
        anyhow::Ok(())
    })
    .await
}
