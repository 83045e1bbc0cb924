//! An object changes between the decision and the write.

use crate::pvc_provisioner::{
    patient::{Patient, claim_posts, claim_write, watch_of},
    support::{MARK, awaiting},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// A user removes the mark, or another claim has the name by now: a late deletion spares both.
#[tokio::test]
async fn a_late_deletion_spares_what_changed_meanwhile() -> Result<()> {
    let patient = Patient::new("late-deletion").await?;
    let (askers, space) = (&patient.askers, &patient.askers.space);
    let _warden = patient.start_impatient().await?;
    let names = ["unmarked", "replaced"];
    // Requests that time out and are retried also arrive eventually.
    let held = names.map(|name| {
        let deletion = claim_write("DELETE", name);
        patient.between.add(deletion.postpone())
    });
    for (name, held) in names.iter().zip(&held) {
        askers.create_claim(name, awaiting()).await?;
        held.held(1).await?;
    }
    space
        .patch_claim(
            "unmarked",
            json!({"metadata": {"annotations": {MARK: null}}}),
        )
        .await?;
    space.delete_claim("replaced").await?;
    space.claim_is_gone("replaced").await?;
    askers.create_claim("replaced", json!({})).await?;
    let (audit, name) = (space.cluster.audit(), &space.name);
    let mark = audit.mark()?;
    let late: usize = held.iter().map(|held| held.taken()).sum();
    drop(held);
    let codes = || {
        let calls = audit.since(mark)?.by_user_agent("volume-warden/");
        let deletions = calls
            .iter()
            .filter(|call| call.verb == "delete" && call.namespace == *name);
        anyhow::Ok(Vec::from_iter(deletions.map(|call| call.code)))
    };
    eventually("the late deletions were answered", async || {
        anyhow::Ok(codes()?.len() >= late)
    })
    .await?;
    askers.settled().await?;
    for name in names {
        ensure!(
            askers
                .claim(name)
                .await?
                .metadata
                .deletion_timestamp
                .is_none(),
            "{name}"
        );
    }
    let codes = codes()?;
    ensure!(codes.iter().all(|code| *code == 409), "{codes:?}");
    Ok(())
}

/// The watch has not delivered the deletion of the pod: the pod does not become the owner, and
/// Volume Warden collects the claim instead of the garbage collector.
#[tokio::test]
async fn a_deleted_pod_gets_no_claim() -> Result<()> {
    let patient = Patient::new("gone-pod").await?;
    let (askers, space) = (&patient.askers, &patient.askers.space);
    let _warden = patient.start_impatient().await?;
    let post = patient.between.add(claim_posts().hold());
    askers.ask("pod", "data", json!({})).await?;
    post.held(1).await?;
    let frozen = patient.between.add(watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    space.delete_pod("pod").await?;
    eventually("the pod is gone", async || {
        anyhow::Ok(space.pods.get_opt("pod").await?.is_none())
    })
    .await?;
    askers.create_claim("data", awaiting()).await?;
    askers.bind("data").await?;
    drop(post);
    space.claim_is_gone("data").await?;
    assert_eq!(patient.deleted(), ["data"]);
    ensure!(
        patient.count("GET", "/pods/pod") > 0,
        "it was not asked for"
    );
    Ok(())
}

/// A namespace is deleted while one claim is being created, one gets its owner and one is
/// collected: all operations end.
#[tokio::test]
async fn a_namespace_may_be_deleted_in_the_middle() -> Result<()> {
    let patient = Patient::new("namespace").await?;
    let (askers, space) = (&patient.askers, &patient.askers.space);
    let warden = patient.start_impatient().await?;
    let posts = patient.between.add(claim_posts().hold());
    let gift = patient.between.add(claim_write("PATCH", "given").hold());
    let deletion = patient.between.add(claim_write("DELETE", "orphan").hold());
    let kept = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    askers.ask("giving", "given", kept.clone()).await?;
    askers.ask("making", "made", kept).await?;
    posts.held(2).await?;
    askers.create_claim("given", awaiting()).await?;
    askers.bind("given").await?;
    askers.create_claim("orphan", awaiting()).await?;
    deletion.held(1).await?;
    // Volume Warden's attempt to create the claim times out first.
    gift.held(1).await?;
    let namespaces: Api<Namespace> = Api::all(space.cluster.client());
    namespaces
        .delete(&space.name, &DeleteParams::default())
        .await?;
    for pod in ["giving", "making"] {
        eventually("the pod is going", async || {
            let metadata = space.pods.get(pod).await?.metadata;
            anyhow::Ok(metadata.deletion_timestamp.is_some())
        })
        .await?;
    }
    drop((posts, gift, deletion));
    for pod in ["giving", "making"] {
        askers
            .patch_pod(pod, json!({"metadata": {"finalizers": null}}))
            .await?;
    }
    eventually("the namespace is gone", async || {
        let left = namespaces.get_opt(&space.name).await?;
        ensure!(left.is_none(), "{:?}", left.and_then(|left| left.status));
        Ok(())
    })
    .await?;
    eventually("nothing is left to do", async || {
        let depth = "volume_warden_queue_depth{component=\"pvc-provisioner\"} 0";
        let metrics = warden.metrics().await?;
        let shown: Vec<_> = metrics
            .lines()
            .filter(|line| line.contains("queue"))
            .collect();
        ensure!(shown.contains(&depth), "{shown:?}");
        Ok(())
    })
    .await
}
