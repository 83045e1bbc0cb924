//! Which pods count, pods created before Volume Warden starts, and deleted pods.

use super::fault_fixture::FaultFixture;
use super::support::{TEMPLATE, annotations, asking, is_from_volume_warden, is_of_canary};
use crate::support::on_node;
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use volume_warden_controlplane::{Warden, eventually};

/// Created at once, as far as the API server takes them.
const AT_ONCE: usize = 20;

/// DP-19, DP-20: only waiting pods get claims and Events.
#[tokio::test]
async fn nothing_is_made_for_pods_that_do_not_wait() -> Result<()> {
    let fixture = FaultFixture::new("not-waiting").await?;
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
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

    let _warden = fixture.start().await?;
    askers.settled().await?;
    // Nor when they are reconciled again.
    let edited = format!("{TEMPLATE}# once more\n");
    for pod in ["running", "succeeded", "failed", "unknown", "deleting"] {
        askers.patch_pod(pod, template(&edited)).await?;
    }
    askers.patch_pod("broken", template("]")).await?;
    askers.settled().await?;
    let events = askers.space.events.list(&ListParams::default()).await?;
    let mut events = events.iter().filter(|event| is_from_volume_warden(event));
    ensure!(
        events.all(is_of_canary),
        "Events on other pods than the canaries"
    );
    ensure!(askers.claims().await?.is_empty());
    assert_eq!(fixture.posts(), 2, "the canaries'");
    askers
        .patch_pod("deleting", json!({"metadata": {"finalizers": null}}))
        .await
}

/// DP-25, DP-26: pods created before the start are served, and a successor writes and publishes
/// nothing.
#[tokio::test]
async fn pods_from_before_are_served_once() -> Result<()> {
    const PODS: usize = 100;
    let fixture = FaultFixture::new("before").await?;
    let askers = &fixture.askers;
    let pods: Vec<_> = many(&fixture, PODS, |name| asking(name, name, json!({}))).await?;
    let first = fixture.start().await?;
    for pod in &pods {
        askers
            .belongs(pod.metadata.name.as_deref().unwrap_or_default(), pod)
            .await?;
    }
    let published = async || {
        let events = askers.space.events_with("PVCProvisioned").await?;
        anyhow::Ok(events.len())
    };
    eventually("all have Events", async || {
        anyhow::Ok(published().await? == PODS)
    })
    .await?;
    assert_eq!(fixture.posts(), PODS);
    askers.settled().await?;
    first.stop().await?;

    let before = (writes(&fixture), published().await?);
    let _second: Warden = fixture.start().await?;
    askers.settled().await?;
    // The canary's claim and its event.
    assert_eq!(
        (writes(&fixture), published().await?),
        (before.0 + 2, before.1 + 1)
    );
    Ok(())
}

/// DP-34: one pod among many costs two reads and two writes, and the other pods cost no call.
#[tokio::test]
async fn one_pod_among_many_costs_four_calls() -> Result<()> {
    let fixture = FaultFixture::new("among-many").await?;
    let askers = &fixture.askers;
    let plain = |name: &str| {
        let (enabled, template) = ("data.enabled", "data.pvc");
        let none = annotations(&[(enabled, None), (template, None)]);
        asking(name, "unmarked", none)
    };
    let _warden = fixture.start().await?;
    let started = calls(&fixture).len();
    many(&fixture, 300, plain).await?;
    askers.settled().await?;
    let calls = calls(&fixture);
    let pod = askers.ask("pod", "data", json!({})).await?;
    askers.belongs("data", &pod).await?;
    askers
        .has_event("pod", "PVCProvisioned", "\"data\"")
        .await?;
    let now = self::calls(&fixture);
    ensure!(now.len() == calls.len() + 4, "{:?}", &now[calls.len()..]);
    // The 300 others caused no reads or writes: the earlier calls were for the canary.
    assert_eq!(calls.len(), started + 4, "{calls:?}");
    Ok(())
}

/// DP-27, DP-28: a claim is deleted with its pod, however the pod is deleted. The pod runs, so the
/// claim is in use.
#[tokio::test]
async fn a_claim_is_deleted_with_its_pod() -> Result<()> {
    let fixture = FaultFixture::new("gone").await?;
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
    let _warden = fixture.start().await?;
    let provisioned = TEMPLATE.replace("absent", "standard");
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
    ensure!(left.items.is_empty(), "recreated: {left:?}");
    Ok(())
}

async fn many(
    fixture: &FaultFixture,
    count: usize,
    pod: impl Fn(&str) -> Result<k8s_openapi::api::core::v1::Pod>,
) -> Result<Vec<k8s_openapi::api::core::v1::Pod>> {
    let pods = &fixture.askers.space.pods;
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

/// Number of write requests in the namespace so far, except for its Lease.
fn writes(fixture: &FaultFixture) -> usize {
    let written = calls(fixture);
    let written = written
        .iter()
        .filter(|call| !call.starts_with("GET") && !call.contains("/leases"));
    written.count()
}

/// All requests in the namespace so far, except watches, which are restarted periodically.
fn calls(fixture: &FaultFixture) -> Vec<String> {
    let namespace = format!("/namespaces/{}/", fixture.askers.space.name);
    let seen = fixture.interposer.requests().into_iter();
    seen.filter(|seen| seen.path.contains(&namespace) && !seen.query.contains("watch=true"))
        .map(|seen| format!("{} {}", seen.method, seen.path))
        .collect()
}
