//! Which pods get claims, pods created before Volume Warden starts, and deleted pods.

use super::fault_fixture::FaultFixture;
use super::support::{
    TEMPLATE, annotations, is_about_canary, is_from_volume_warden, requesting_pod,
};
use crate::support::on_node;
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use volume_warden_controlplane::{Warden, eventually};

/// Maximum number of concurrent POST requests of [`create_pods`].
const CONCURRENCY: usize = 20;

/// DP-19, DP-20: pods that run, have ended, have the phase Unknown or are being deleted get no
/// claims and no Events.
#[tokio::test]
async fn only_pending_pods_get_claims_and_events() -> Result<()> {
    let fixture = FaultFixture::new("not-waiting").await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    pod_space.request_claim("running", "a", on_node()).await?;
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
        pod_space.request_claim(pod, pod, json!({})).await?;
        space.patch_pod_status(pod, json!({"phase": phase})).await?;
    }
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    pod_space.request_claim("deleting", "b", held).await?;
    space.delete_pod("deleting").await?;
    let template = |text| annotations(&[("data.pvc", Some(text))]);
    pod_space
        .request_claim("broken", "c", template("}"))
        .await?;
    let failed = json!({"phase": "Failed"});
    space.patch_pod_status("broken", failed).await?;

    let _warden = fixture.start().await?;
    pod_space.wait_until_processed().await?;
    // The same when a change of the pods triggers another reconcile.
    let edited = format!("{TEMPLATE}# once more\n");
    for pod in ["running", "succeeded", "failed", "unknown", "deleting"] {
        pod_space.patch_pod(pod, template(&edited)).await?;
    }
    pod_space.patch_pod("broken", template("]")).await?;
    pod_space.wait_until_processed().await?;
    let events = pod_space.space.events.list(&ListParams::default()).await?;
    let mut events = events.iter().filter(|event| is_from_volume_warden(event));
    ensure!(
        events.all(is_about_canary),
        "there are Events on other pods than the canaries"
    );
    ensure!(pod_space.claim_names().await?.is_empty());
    assert_eq!(fixture.posts(), 2, "only the claims of the two canaries");
    pod_space
        .patch_pod("deleting", json!({"metadata": {"finalizers": null}}))
        .await
}

/// DP-25, DP-26: pods that were created before the start of Volume Warden get their claims, and a
/// restarted Volume Warden neither writes nor publishes anything for these pods.
#[tokio::test]
async fn pods_created_before_the_start_get_their_claims_once() -> Result<()> {
    const PODS: usize = 100;
    let fixture = FaultFixture::new("before").await?;
    let pod_space = &fixture.pod_space;
    let pods: Vec<_> =
        create_pods(&fixture, PODS, |name| requesting_pod(name, name, json!({}))).await?;
    let first = fixture.start().await?;
    for pod in &pods {
        pod_space
            .belongs(pod.metadata.name.as_deref().unwrap_or_default(), pod)
            .await?;
    }
    let published = async || {
        let events = pod_space.space.events_with("PVCProvisioned").await?;
        anyhow::Ok(events.len())
    };
    eventually("all pods have Events", async || {
        anyhow::Ok(published().await? == PODS)
    })
    .await?;
    assert_eq!(fixture.posts(), PODS);
    pod_space.wait_until_processed().await?;
    first.stop().await?;

    let before = (writes(&fixture), published().await?);
    let _second: Warden = fixture.start().await?;
    pod_space.wait_until_processed().await?;
    // The claim and the Event of the canary are two writes.
    assert_eq!(
        (writes(&fixture), published().await?),
        (before.0 + 2, before.1 + 1)
    );
    Ok(())
}

/// DP-34: one pod that requests a claim, among many pods that do not, costs two reads and two
/// writes. The other pods cost no request.
#[tokio::test]
async fn one_pod_among_many_costs_four_calls() -> Result<()> {
    let fixture = FaultFixture::new("among-many").await?;
    let pod_space = &fixture.pod_space;
    let without_request = |name: &str| {
        let (enabled, template) = ("data.enabled", "data.pvc");
        let removed = annotations(&[(enabled, None), (template, None)]);
        requesting_pod(name, "unmarked", removed)
    };
    let _warden = fixture.start().await?;
    let at_start = calls(&fixture).len();
    create_pods(&fixture, 300, without_request).await?;
    pod_space.wait_until_processed().await?;
    let calls = calls(&fixture);
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    pod_space.belongs("data", &pod).await?;
    pod_space
        .has_event("pod", "PVCProvisioned", "\"data\"")
        .await?;
    let now = self::calls(&fixture);
    ensure!(now.len() == calls.len() + 4, "{:?}", &now[calls.len()..]);
    // The 300 other pods cost no reads or writes: the four earlier requests were for the canary.
    assert_eq!(calls.len(), at_start + 4, "{calls:?}");
    Ok(())
}

/// DP-27, DP-28: a claim is deleted with its pod, with background and with foreground deletion of
/// the pod. The pod runs, so the claim is in use.
#[tokio::test]
async fn a_claim_is_deleted_with_its_pod() -> Result<()> {
    let fixture = FaultFixture::new("gone").await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let _warden = fixture.start().await?;
    let provisioned = TEMPLATE.replace("absent", "standard");
    for (name, how) in [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
    ] {
        let mut scheduled = annotations(&[("data.pvc", Some(&provisioned))]);
        scheduled["spec"] = json!({"schedulerName": null});
        let pod = pod_space.request_claim(name, name, scheduled).await?;
        pod_space.belongs(name, &pod).await?;
        eventually("the pod runs", async || {
            let status = space.pods.get(name).await?.status;
            anyhow::Ok(status.and_then(|status| status.phase).as_deref() == Some("Running"))
        })
        .await?;
        space.pods.delete(name, &how).await?;
        eventually("the pod is deleted", async || {
            let left = space.pods.get_opt(name).await?;
            ensure!(left.is_none(), "{:?}", left.map(|pod| pod.metadata));
            Ok(())
        })
        .await?;
        space.claim_is_gone(name).await?;
    }
    let left = space.claims.list_metadata(&ListParams::default()).await?;
    ensure!(left.items.is_empty(), "a claim was recreated: {left:?}");
    Ok(())
}

/// Creates the pods that `pod` returns for the names `many0`, `many1`, ...
async fn create_pods(
    fixture: &FaultFixture,
    count: usize,
    pod: impl Fn(&str) -> Result<k8s_openapi::api::core::v1::Pod>,
) -> Result<Vec<k8s_openapi::api::core::v1::Pod>> {
    let pods = &fixture.pod_space.space.pods;
    let (pod, parameters) = (&pod, PostParams::default());
    stream::iter(0..count)
        .map(async |number| {
            anyhow::Ok(
                pods.create(&parameters, &pod(&format!("many{number}"))?)
                    .await?,
            )
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
}

/// The number of write requests in the namespace so far, except those for the Lease.
fn writes(fixture: &FaultFixture) -> usize {
    let calls = calls(fixture);
    let writes = calls
        .iter()
        .filter(|call| !call.starts_with("GET") && !call.contains("/leases"));
    writes.count()
}

/// All requests in the namespace so far, except watches, which are restarted periodically.
fn calls(fixture: &FaultFixture) -> Vec<String> {
    let namespace = format!("/namespaces/{}/", fixture.pod_space.space.name);
    let seen = fixture.interposer.requests().into_iter();
    seen.filter(|seen| seen.path.contains(&namespace) && !seen.query.contains("watch=true"))
        .map(|seen| format!("{} {}", seen.method, seen.path))
        .collect()
}
