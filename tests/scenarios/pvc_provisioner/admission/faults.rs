//! Failures during the admission of a pod: the pod is created nevertheless, and eventually has its
//! claim.

use super::{
    outage_fixture::OutageFixture,
    posted::{post, post_and_get_claim, until_webhook_answers},
};
use crate::pvc_provisioner::{
    fault_fixture::claim_posts,
    support::{AWAITING_POD, CONTROLLER_ID, MANAGED_BY, requesting_pod},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::ResourceExt;
use serde_json::json;

/// Until the claim is bound, it has a marker instead of an owner; then one write replaces the
/// marker with the owner. The Event on the pod is published before that write.
#[tokio::test]
async fn a_claim_awaits_its_pod_with_a_marker() -> Result<()> {
    let fixture = OutageFixture::new("marked", &[]).await?;
    let pod_space = &fixture.pod_space;
    let began = Timestamp::now();
    let (response, claim) = post_and_get_claim(pod_space).await?;
    let (pod, name) = (response.object::<Pod>()?, claim.name_any());
    ensure!(claim.owner_references().is_empty(), "{:?}", claim.metadata);
    assert_eq!(claim.finalizers(), ["kubernetes.io/pvc-protection"]);
    assert_eq!(json!(claim.labels()), json!({MANAGED_BY: CONTROLLER_ID}));
    let marker = claim
        .annotations()
        .get(AWAITING_POD)
        .context("the claim has no marker")?;
    let since: Timestamp = marker.parse()?;
    ensure!(
        since.as_second() >= began.as_second() && since <= Timestamp::now(),
        "{since}"
    );
    pod_space.has_event(&name, "PVCProvisioned", &name).await?;
    pod_space.wait_until_processed().await?;
    let pending = pod_space.claim(&name).await?;
    assert_eq!(pending.resource_version(), claim.resource_version());

    assert_eq!(pod_space.belongs(&name, &pod).await?.uid(), claim.uid());
    pod_space.wait_until_processed().await?;
    assert_eq!(pod_space.pod_events(&name).await?.len(), 1);
    let calls = pod_space.space.cluster.audit().all()?;
    let calls = calls.by_user_agent("volume-warden/");
    let patches = calls.iter().filter(|call| {
        (&*call.verb, &*call.resource) == ("patch", "persistentvolumeclaims")
            && (&call.namespace, &call.name) == (&pod_space.space.name, &name)
            && call.subresource.is_empty()
            && call.code == 200
    });
    assert_eq!(patches.count(), 1);
    Ok(())
}

/// If the claim cannot be created at admission, the POST of the pod succeeds within the timeout of
/// the webhook, the response has a warning, and the claim is created later.
#[tokio::test]
async fn a_claim_that_cannot_be_made_at_once_is_made_later() -> Result<()> {
    let fixture = OutageFixture::new("not-at-once", &[]).await?;
    let pod_space = &fixture.pod_space;
    let fault = claim_posts;
    let unknown = "may not have been created";
    for (fault, outcome, cause) in [
        (
            fault().respond(503, "ServiceUnavailable", "not now"),
            unknown,
            "not now",
        ),
        (
            fault().respond(403, "Forbidden", "not on my watch"),
            "was not created",
            "not on my watch",
        ),
        (fault().cut(), unknown, ""),
        (fault().hold(), unknown, "the API server did not answer"),
    ] {
        // The reconciler tries to create the claim as soon as the pod exists, so some of its
        // requests fail as well.
        let broken = fixture.interposer.add(fault);
        let response = until_webhook_answers(pod_space, async |name| {
            post(
                &pod_space.space,
                &requesting_pod(name, name, json!({}))?,
                "",
            )
            .await
        })
        .await?;
        let warned = response.has_warning(&format!("{outcome}, and will be tried again: "))
            && response.has_warning(cause);
        ensure!(response.code == 201 && warned, "{response:?}");
        drop(broken);
        let pod: Pod = response.object()?;
        let name = pod.name_any();
        pod_space.belongs(&name, &pod).await?;
        pod_space
            .has_event(&name, "PVCProvisioned", "created")
            .await?;
    }
    Ok(())
}
