//! Failures while pods are created. The pod is created nevertheless and eventually has its claim.

use super::{
    outage_fixture::OutageFixture,
    posted::{asked_for, heard, post},
};
use crate::pvc_provisioner::{
    fault_fixture::claim_posts,
    support::{ID, LABEL, MARK, asking},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::ResourceExt;
use serde_json::json;

/// Until the claim is bound it has a mark instead of an owner; one write replaces the mark with
/// the owner. Its pod gets the Event at once.
#[tokio::test]
async fn a_claim_awaits_its_pod_with_a_mark() -> Result<()> {
    let fixture = OutageFixture::new("marked", &[]).await?;
    let askers = &fixture.askers;
    let began = Timestamp::now();
    let (posted, claim) = asked_for(askers).await?;
    let (pod, name) = (posted.object::<Pod>()?, claim.name_any());
    ensure!(claim.owner_references().is_empty(), "{:?}", claim.metadata);
    assert_eq!(claim.finalizers(), ["kubernetes.io/pvc-protection"]);
    assert_eq!(json!(claim.labels()), json!({LABEL: ID}));
    let mark = claim.annotations().get(MARK).context("no mark")?;
    let since: Timestamp = mark.parse()?;
    ensure!(
        since.as_second() >= began.as_second() && since <= Timestamp::now(),
        "{since}"
    );
    askers.has_event(&name, "PVCProvisioned", &name).await?;
    askers.settled().await?;
    let pending = askers.claim(&name).await?;
    assert_eq!(pending.resource_version(), claim.resource_version());

    assert_eq!(askers.belongs(&name, &pod).await?.uid(), claim.uid());
    askers.settled().await?;
    assert_eq!(askers.pod_events(&name).await?.len(), 1);
    let calls = askers.space.cluster.audit().all()?;
    let calls = calls.by_user_agent("volume-warden/");
    let written = calls.iter().filter(|call| {
        (&*call.verb, &*call.resource) == ("patch", "persistentvolumeclaims")
            && (&call.namespace, &call.name) == (&askers.space.name, &name)
            && call.subresource.is_empty()
            && call.code == 200
    });
    assert_eq!(written.count(), 1);
    Ok(())
}

/// The POST of a pod waits no longer than the webhook's timeout; the response has a warning, and
/// the claim is created later.
#[tokio::test]
async fn a_claim_that_cannot_be_made_at_once_is_made_later() -> Result<()> {
    let fixture = OutageFixture::new("not-at-once", &[]).await?;
    let askers = &fixture.askers;
    let fault = claim_posts;
    for (fault, cause) in [
        (
            fault().respond(503, "ServiceUnavailable", "not now"),
            "not now",
        ),
        (
            fault().respond(403, "Forbidden", "not on my watch"),
            "not on my watch",
        ),
        (fault().cut(), ""),
        (fault().hold(), "the API server did not answer"),
    ] {
        // The reconciler's attempts begin as soon as the pod exists, so some of them fail as well.
        let broken = fixture.interposer.add(fault);
        let posted = heard(askers, async |name| {
            post(&askers.space, &asking(name, name, json!({}))?, "").await
        })
        .await?;
        let said = posted.says("was not created, and will be tried again: ") && posted.says(cause);
        ensure!(posted.code == 201 && said, "{posted:?}");
        drop(broken);
        let pod: Pod = posted.object()?;
        let name = pod.name_any();
        askers.belongs(&name, &pod).await?;
        askers.has_event(&name, "PVCProvisioned", "created").await?;
    }
    Ok(())
}
