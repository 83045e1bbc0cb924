//! Which pods count, when they were created before Volume Warden was there, and when they go.

use super::patient::Patient;
use super::support::{TEMPLATE, annotations, asking, is_of_canary, is_ours};
use crate::support::on_node;
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use volume_warden_controlplane::{Warden, eventually};

/// Created at once, as far as the API server takes them.
const AT_ONCE: usize = 20;

/// DP-19, DP-20: only who waits gets something, and nobody else is told anything.
#[tokio::test]
async fn nothing_is_made_for_pods_that_do_not_wait() -> Result<()> {
    let patient = Patient::new("not-waiting").await?;
    let (askers, space) = (&patient.askers, &patient.askers.space);
    askers.ask("running", "a", on_node()).await?;
    eventually("the pod runs", async || {
        let status = space.pods.get("running").await?.status;
        anyhow::Ok(status.and_then(|status| status.phase).as_deref() == Some("Running"))
    })
    .await?;
    for (pod, phase) in [
        ("succeeded", "Succeeded"),
        ("failed", "Failed"),
        ("unknown", "Unknown"),
    ] {
        askers.ask(pod, pod, json!({})).await?;
        space.patch_pod_status(pod, json!({"phase": phase})).await?;
    }
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    askers.ask("deleting", "b", held).await?;
    space.delete_pod("deleting").await?;
    let template = |text| annotations(&[("data.pvc", Some(text))]);
    askers.ask("broken", "c", template("}")).await?;
    let failed = json!({"phase": "Failed"});
    space.patch_pod_status("broken", failed).await?;

    let _warden = patient.start().await?;
    askers.settled().await?;
    // Nor when they are looked at again.
    let edited = format!("{TEMPLATE}# once more\n");
    for pod in ["running", "succeeded", "failed", "unknown", "deleting"] {
        askers.patch_pod(pod, template(&edited)).await?;
    }
    askers.patch_pod("broken", template("]")).await?;
    askers.settled().await?;
    let told = askers.space.events.list(&ListParams::default()).await?;
    let mut told = told.iter().filter(|event| is_ours(event));
    ensure!(told.all(is_of_canary), "others than the canaries");
    ensure!(askers.claims().await?.is_empty());
    assert_eq!(patient.posts(), 2, "the canaries'");
    askers
        .patch_pod("deleting", json!({"metadata": {"finalizers": null}}))
        .await
}

/// DP-25, DP-26: those that were created before are served, and a successor has nothing to do, nor to say.
#[tokio::test]
async fn pods_from_before_are_served_once() -> Result<()> {
    const PODS: usize = 100;
    let patient = Patient::new("before").await?;
    let askers = &patient.askers;
    let pods: Vec<_> = many(&patient, PODS, |name| asking(name, name, json!({}))).await?;
    let first = patient.start().await?;
    for pod in &pods {
        askers
            .belongs(pod.metadata.name.as_deref().unwrap_or_default(), pod)
            .await?;
    }
    let told = async || {
        let events = askers.space.events_with("PVCProvisioned").await?;
        anyhow::Ok(events.len())
    };
    eventually("all are told", async || anyhow::Ok(told().await? == PODS)).await?;
    assert_eq!(patient.posts(), PODS);
    askers.settled().await?;
    first.stop().await?;

    let before = (writes(&patient), told().await?);
    let _second: Warden = patient.start().await?;
    askers.settled().await?;
    // The canary's claim and its event.
    assert_eq!(
        (writes(&patient), told().await?),
        (before.0 + 2, before.1 + 1)
    );
    Ok(())
}

/// DP-34, and no call for anybody else: one pod among many costs two looks and two writes.
#[tokio::test]
async fn one_pod_among_many_costs_four_calls() -> Result<()> {
    let patient = Patient::new("among-many").await?;
    let askers = &patient.askers;
    let plain = |name: &str| {
        let (enabled, template) = ("data.enabled", "data.pvc");
        let none = annotations(&[(enabled, None), (template, None)]);
        asking(name, "nobodys", none)
    };
    let _warden = patient.start().await?;
    let started = calls(&patient).len();
    many(&patient, 300, plain).await?;
    askers.settled().await?;
    let calls = calls(&patient);
    let pod = askers.ask("pod", "data", json!({})).await?;
    askers.belongs("data", &pod).await?;
    askers.is_told("pod", "PVCProvisioned", "\"data\"").await?;
    let now = self::calls(&patient);
    ensure!(now.len() == calls.len() + 4, "{:?}", &now[calls.len()..]);
    // Of the 300 others nothing was read or written: so far there were the calls for the canary.
    assert_eq!(calls.len(), started + 4, "{calls:?}");
    Ok(())
}

/// DP-27, DP-28: a claim goes with its pod, whichever way that goes. It runs, so the claim is in use.
#[tokio::test]
async fn a_claim_goes_with_its_pod() -> Result<()> {
    let patient = Patient::new("gone").await?;
    let (askers, space) = (&patient.askers, &patient.askers.space);
    let _warden = patient.start().await?;
    let provisioned = TEMPLATE.replace("nobody", "standard");
    for (name, how) in [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
    ] {
        let mut scheduled = annotations(&[("data.pvc", Some(&provisioned))]);
        scheduled["spec"] = json!({"schedulerName": null});
        let pod = askers.ask(name, name, scheduled).await?;
        askers.belongs(name, &pod).await?;
        eventually("the pod runs", async || {
            let status = space.pods.get(name).await?.status;
            anyhow::Ok(status.and_then(|status| status.phase).as_deref() == Some("Running"))
        })
        .await?;
        space.pods.delete(name, &how).await?;
        eventually("the pod is gone", async || {
            let left = space.pods.get_opt(name).await?;
            ensure!(left.is_none(), "{:?}", left.map(|pod| pod.metadata));
            Ok(())
        })
        .await?;
        space.claim_is_gone(name).await?;
    }
    let left = space.claims.list_metadata(&ListParams::default()).await?;
    ensure!(left.items.is_empty(), "made anew: {left:?}");
    Ok(())
}

async fn many(
    patient: &Patient,
    count: usize,
    pod: impl Fn(&str) -> Result<k8s_openapi::api::core::v1::Pod>,
) -> Result<Vec<k8s_openapi::api::core::v1::Pod>> {
    let pods = &patient.askers.space.pods;
    let (pod, parameters) = (&pod, PostParams::default());
    stream::iter(0..count)
        .map(async |number| {
            anyhow::Ok(
                pods.create(&parameters, &pod(&format!("many{number}"))?)
                    .await?,
            )
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Writes in the namespace so far, tried or done, except of its Lease.
fn writes(patient: &Patient) -> usize {
    let written = calls(patient);
    let written = written
        .iter()
        .filter(|call| !call.starts_with("GET") && !call.contains("/leases"));
    written.count()
}

/// Everything that was asked so far in the namespace, except watches, which come again by and by.
fn calls(patient: &Patient) -> Vec<String> {
    let namespace = format!("/namespaces/{}/", patient.askers.space.name);
    let seen = patient.between.requests().into_iter();
    seen.filter(|seen| seen.path.contains(&namespace) && !seen.query.contains("watch=true"))
        .map(|seen| format!("{} {}", seen.method, seen.path))
        .collect()
}
