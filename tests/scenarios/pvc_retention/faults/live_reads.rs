//! Caches trigger, live reads decide: writes that must not happen when a watch is late or a live
//! read fails.

use super::{Patient, held_pods, watch_of};
use crate::pvc_retention::support::{
    DELETE_DELETE, DELETE_RETAIN, RETAIN_DELETE, RETAIN_RETAIN, set,
};
use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

fn set_read(name: &str) -> Rule {
    Rule::on("GET").path_contains(format!("/statefulsets/{name}"))
}

fn pod_list() -> Rule {
    Rule::on("GET")
        .path_contains("/pods")
        .query_contains("limit=")
}

/// Without the live set its policy is unknown: no references, marks or deletions are written.
#[tokio::test]
async fn nothing_is_written_while_the_set_cannot_be_read() -> Result<()> {
    let patient = Patient::new("no-set").await?;
    let _warden = patient.start().await?;
    for fault in [
        set_read("web").respond(500, "InternalError", "no sets today"),
        set_read("web").cut(),
    ] {
        let writes = patient.claim_writes();
        let broken = patient.between.add(fault);
        patient.sets.create("web", 1, DELETE_DELETE).await?;
        patient.create_marked_claim("data-web-5", "web").await?;
        eventually("the reads were retried", async || broken.taken() >= 4).await?;
        assert_eq!(patient.claim_writes(), writes);
        drop(broken);
        let owner = ["StatefulSet/web"];
        patient.sets.claim_is_owned_by("data-web-0", &owner).await?;
        patient.sets.space.claim_is_gone("data-web-5").await?;
        patient.sets.delete("web", &Default::default()).await?;
        patient.sets.space.claim_is_gone("data-web-0").await?;
    }
    Ok(())
}

/// Without the live pods no pod becomes an owner, and no claim counts as one without a pod.
#[tokio::test]
async fn nothing_is_decided_by_pods_that_cannot_be_read() -> Result<()> {
    let patient = Patient::new("no-pods").await?;
    let sets = &patient.sets;
    let _warden = patient.start().await?;
    let web = sets
        .create_with("web", 2, RETAIN_DELETE, held_pods())
        .await?;
    let mark = web.metadata.uid.as_deref();
    sets.claim_is_marked("data-web-1", mark).await?;
    sets.claim_is_marked("data-web-0", mark).await?;
    let writes = patient.claim_writes();
    let broken = patient
        .between
        .add(pod_list().respond(500, "InternalError", "no pods today"));
    sets.scale("web", 1).await?;
    patient.create_marked_claim("data-web-5", "web").await?;
    eventually("the reads were retried", async || broken.taken() >= 4).await?;
    assert_eq!(patient.claim_writes(), writes);
    drop(broken);
    sets.space.claim_is_gone("data-web-5").await?;
    sets.claim_is_owned_by("data-web-1", &["Pod/web-1"]).await?;
    patient.free("web-1").await?;
    sets.space.claim_is_gone("data-web-1").await?;
    sets.claim_is_owned_by("data-web-0", &[]).await
}

/// The watch has not delivered the deletion of a pod: with that pod as owner, the garbage
/// collector would delete a claim to retain.
#[tokio::test]
async fn a_deleted_pod_never_becomes_an_owner() -> Result<()> {
    let patient = Patient::new("gone-pod").await?;
    let sets = &patient.sets;
    let _warden = patient.start().await?;
    sets.create("web", 2, RETAIN_RETAIN).await?;
    sets.settled().await?;
    let frozen = patient.between.add(watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    sets.scale("web", 1).await?;
    eventually("the pod is gone", async || {
        anyhow::Ok(sets.space.pods.get_opt("web-1").await?.is_none())
    })
    .await?;
    sets.set_policy("web", RETAIN_DELETE).await?;
    let mark = sets.sets.get("web").await?.metadata.uid;
    sets.claim_is_marked("data-web-0", mark.as_deref()).await?;
    sets.settled().await?;
    assert_eq!(patient.claim_writes_of("data-web-1"), 0);
    // Not even when the watch catches up, because the claim has no mark.
    drop(frozen);
    patient
        .event_says("ScaledDownUnmarked", "web", "data-web-1")
        .await?;
    assert_eq!(patient.claim_writes_of("data-web-1"), 0);
    sets.claim_is_owned_by("data-web-1", &[]).await
}

/// The watch has not delivered that the set was scaled up again. Its pods never run, so the claim
/// has no pod.
#[tokio::test]
async fn a_set_that_was_scaled_up_again_keeps_its_claim() -> Result<()> {
    let patient = Patient::new("up-again").await?;
    let sets = &patient.sets;
    let _warden = patient.start().await?;
    let starved = json!({"spec": {
        "podManagementPolicy": "OrderedReady",
        "template": {"spec": {"nodeName": null, "schedulerName": "absent"}},
    }});
    let wanted = set("web", 1, RETAIN_DELETE, starved)?;
    let created = sets.sets.create(&PostParams::default(), &wanted).await?;
    let uid = created.metadata.uid.context("a uid")?;
    eventually("the first claim exists", async || {
        anyhow::Ok(sets.space.claims.get_opt("data-web-0").await?)
    })
    .await?;
    sets.claim_is_marked("data-web-0", Some(&uid)).await?;
    sets.settled().await?;
    let frozen = patient
        .between
        .add(watch_of("statefulsets").freeze_stream());
    frozen.held(1).await?;
    sets.scale("web", 3).await?;
    let reads = patient.count("GET", "/statefulsets/web");
    patient.create_marked_claim("data-web-2", "web").await?;
    eventually("the set was read live", async || {
        patient.count("GET", "/statefulsets/web") > reads
    })
    .await?;
    drop(frozen);
    sets.settled().await?;
    assert_eq!(patient.claim_writes_of("data-web-2"), 0);
    sets.claim_is_marked("data-web-2", Some(&uid)).await
}

/// The pod of an ordinal that is in range again does not count as condemned: the only write adds
/// the mark.
#[tokio::test]
async fn a_pod_of_a_set_that_was_scaled_up_again_is_not_condemned() -> Result<()> {
    let patient = Patient::new("not-condemned").await?;
    let sets = &patient.sets;
    let _warden = patient.start().await?;
    let web = sets.create("web", 1, RETAIN_DELETE).await?;
    let mark = web.metadata.uid.as_deref();
    sets.claim_is_marked("data-web-0", mark).await?;
    sets.settled().await?;
    let frozen = patient
        .between
        .add(watch_of("statefulsets").freeze_stream());
    frozen.held(1).await?;
    let reads = patient.count("GET", "/statefulsets/web");
    sets.scale("web", 2).await?;
    sets.has_ready("web", 2).await?;
    eventually("the set was read live", async || {
        patient.count("GET", "/statefulsets/web") > reads
    })
    .await?;
    drop(frozen);
    sets.settled().await?;
    sets.claim_is_marked("data-web-1", mark).await?;
    assert_eq!(patient.claim_writes_of("data-web-1"), 1);
    sets.claim_is_owned_by("data-web-1", &[]).await
}

/// The set was recreated while the watch was late: the old uid is not written to the claims.
#[tokio::test]
async fn a_recreated_set_is_distinguished_from_the_old_one() -> Result<()> {
    let patient = Patient::new("recreated").await?;
    let sets = &patient.sets;
    let _warden = patient.start().await?;
    sets.create("web", 1, DELETE_RETAIN).await?;
    sets.claim_is_owned_by("data-web-0", &["StatefulSet/web"])
        .await?;
    let frozen = patient
        .between
        .add(watch_of("statefulsets").freeze_stream());
    frozen.held(1).await?;
    sets.delete("web", &Default::default()).await?;
    sets.space.claim_is_gone("data-web-0").await?;
    let reads = patient.count("GET", "/statefulsets/web");
    let new = sets.create("web", 1, DELETE_RETAIN).await?;
    let claim = sets.uid_of_claim("data-web-0").await?;
    eventually("the set was read live", async || {
        patient.count("GET", "/statefulsets/web") > reads
    })
    .await?;
    drop(frozen);
    sets.claim_is_owned_by("data-web-0", &["StatefulSet/web"])
        .await?;
    let owners = sets.owners("data-web-0").await?;
    ensure!(
        Some(&owners[0].uid) == new.metadata.uid.as_ref(),
        "{owners:?}"
    );
    // With a nonexistent owner, the garbage collector would have deleted the claim.
    assert_eq!(sets.uid_of_claim("data-web-0").await?, claim);
    Ok(())
}
