//! Volume Warden is killed or paused, or the API server is unavailable: the next leader completes
//! the work in progress.

use super::{Patient, claim_write, held_pods, interposer};
use crate::{
    pvc_retention::support::{DELETE_DELETE, DELETE_RETAIN, RETAIN_RETAIN},
    support::installed,
};
use anyhow::Result;
use kube::ResourceExt;
use std::time::Duration;
use volume_warden_controlplane::{Cluster, Component, Rule, eventually};

/// Matches only writes of claims: single claims are only read through the watch.
fn any_claim_write() -> Rule {
    Rule::on("*").path_contains("/persistentvolumeclaims/")
}

/// Kills Volume Warden before the next write arrives, or before its response does; or when claims
/// and owners equal `last`, because more than one write may arrive before a kill.
async fn dies(patient: &Patient, at: fn(Rule) -> Rule, last: &[&str]) -> Result<()> {
    let held = patient.between.add(at(any_claim_write()));
    // One write at a time: no other write is in flight.
    let builder = patient.builder("warden").arg("--max-in-flight=1");
    let warden = builder.start().await?;
    eventually("a write is held, or none is left", async || {
        anyhow::Ok(held.taken() > 0 || owned(patient).await? == last)
    })
    .await?;
    warden.process().kill()?;
    Ok(())
}

/// All claims, each with the kinds of its owners.
async fn owned(patient: &Patient) -> Result<Vec<String>> {
    let claims = patient.sets.space.claims.list(&Default::default()).await?;
    let mut owned: Vec<_> = claims
        .iter()
        .map(|claim| {
            let owners = claim.owner_references().iter();
            let kinds: Vec<_> = owners.map(|owner| &*owner.kind).collect();
            format!("{} {}", claim.name_any(), kinds.join("+"))
        })
        .collect();
    owned.sort();
    Ok(owned)
}

/// A successor does all remaining work and nothing else. Four claims get owner and mark; of the
/// two claims of a scale-down one still has its pod, the other has none and is deleted directly.
#[tokio::test]
async fn killed_between_any_two_writes_everything_ends_right() -> Result<()> {
    let patient = Patient::new("killed").await?;
    let sets = &patient.sets;
    let web = sets
        .create_with("web", 4, DELETE_DELETE, held_pods())
        .await?;
    let stamped = [
        "data-web-0 StatefulSet",
        "data-web-1 StatefulSet",
        "data-web-2 StatefulSet",
        "data-web-3 StatefulSet",
    ];
    for at in [
        Rule::hold,
        Rule::hold_response,
        Rule::hold_response,
        Rule::hold,
    ] {
        dies(&patient, at, &stamped).await?;
    }
    let successor = patient.start().await?;
    for claim in ["data-web-0", "data-web-1", "data-web-2", "data-web-3"] {
        sets.claim_is_owned_by(claim, &["StatefulSet/web"]).await?;
        let mark = web.metadata.uid.as_deref();
        sets.claim_is_marked(claim, mark).await?;
    }
    drop(successor);
    sets.scale("web", 2).await?;
    patient.free("web-3").await?;
    let scaled = [
        "data-web-0 StatefulSet",
        "data-web-1 StatefulSet",
        "data-web-2 Pod",
    ];
    for at in [Rule::hold, Rule::hold_response, Rule::hold] {
        dies(&patient, at, &scaled).await?;
    }
    let _successor = patient.start().await?;
    sets.space.claim_is_gone("data-web-3").await?;
    sets.claim_is_owned_by("data-web-2", &["Pod/web-2"]).await?;
    patient.free("web-2").await?;
    sets.space.claim_is_gone("data-web-2").await?;
    for claim in ["data-web-0", "data-web-1"] {
        sets.claim_is_owned_by(claim, &["StatefulSet/web"]).await?;
    }
    Ok(())
}

/// A leader that was paused for longer than its Lease does not do new work when it resumes. The
/// second leader is prevented from doing that work, so that it is still pending.
#[tokio::test]
async fn a_leader_that_was_paused_writes_nothing() -> Result<()> {
    let patient = Patient::new("paused").await?;
    let sets = &patient.sets;
    let first = patient.builder("first").start().await?;
    sets.create("web", 2, DELETE_RETAIN).await?;
    for claim in ["data-web-0", "data-web-1"] {
        sets.claim_is_owned_by(claim, &["StatefulSet/web"]).await?;
    }
    let others = interposer(sets.space.cluster).await?;
    let held = others.add(any_claim_write().hold());
    let builder = patient.builder("second").kubeconfig(others.kubeconfig());
    let _second = builder.start().await?;
    first.process().pause()?;
    sets.set_policy("web", RETAIN_RETAIN).await?;
    held.held(1).await?;
    let writes = patient.claim_writes();
    let looks = patient.count("GET", "/leases/");
    first.process().resume()?;
    // Only a follower reads the Lease. After a few reads its watch has long delivered the new
    // policy.
    eventually("the paused replica follows", async || {
        patient.count("GET", "/leases/") >= looks + 4
    })
    .await?;
    assert_eq!(patient.claim_writes(), writes);
    drop(held);
    for claim in ["data-web-0", "data-web-1"] {
        sets.claim_is_owned_by(claim, &[]).await?;
    }
    Ok(())
}

/// The API server stops for a minute in the middle of a scale-down: two claims are already owned
/// by their pods, two are about to be. In this minute Leases expire, calls time out and watches
/// stall; afterwards Volume Warden catches up, and retained claims still exist.
#[tokio::test]
async fn an_api_server_away_for_a_minute_is_caught_up_with() -> Result<()> {
    let cluster: &'static Cluster = Box::leak(Box::new(installed("away", "manifests").await?));
    let patient = Patient::on(cluster, "minute").await?;
    let sets = &patient.sets;
    let _warden = patient.start().await?;
    let web = sets
        .create_with("web", 6, DELETE_DELETE, held_pods())
        .await?;
    sets.create("kept", 3, RETAIN_RETAIN).await?;
    for ordinal in 0..6 {
        let claim = format!("data-web-{ordinal}");
        let mark = web.metadata.uid.as_deref();
        sets.claim_is_marked(&claim, mark).await?;
    }
    let kept = sets.uid_of_claim("data-kept-2").await?;
    let used = sets.uid_of_claim("data-web-1").await?;

    let on_the_way = [4, 5].map(|ordinal| {
        let write = claim_write("PATCH", &format!("data-web-{ordinal}"));
        patient.between.add(write.hold())
    });
    sets.scale("kept", 1).await?;
    sets.scale("web", 2).await?;
    for (claim, pod) in [("data-web-2", "Pod/web-2"), ("data-web-3", "Pod/web-3")] {
        sets.claim_is_owned_by(claim, &[pod]).await?;
    }
    for write in &on_the_way {
        write.held(1).await?;
    }
    cluster.pause(Component::Apiserver)?;
    drop(on_the_way);
    // The minute is the fault itself, not a wait.
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.resume(Component::Apiserver)?;

    for (claim, pod) in [("data-web-4", "Pod/web-4"), ("data-web-5", "Pod/web-5")] {
        sets.claim_is_owned_by(claim, &[pod]).await?;
    }
    for ordinal in 2..6 {
        patient.free(&format!("web-{ordinal}")).await?;
    }
    for ordinal in 2..6 {
        sets.space
            .claim_is_gone(&format!("data-web-{ordinal}"))
            .await?;
    }
    for claim in ["data-web-0", "data-web-1"] {
        sets.claim_is_owned_by(claim, &["StatefulSet/web"]).await?;
    }
    assert_eq!(sets.uid_of_claim("data-web-1").await?, used);
    assert_eq!(sets.uid_of_claim("data-kept-2").await?, kept);
    end(cluster)
}

/// Frees the cluster's memory; a leaked cluster would keep it until all tests end.
fn end(cluster: &Cluster) -> Result<()> {
    use Component::{Apiserver, ControllerManager, Etcd, Kwok, Scheduler};
    for component in [Kwok, Scheduler, ControllerManager, Apiserver, Etcd] {
        cluster.kill(component)?;
    }
    Ok(())
}
