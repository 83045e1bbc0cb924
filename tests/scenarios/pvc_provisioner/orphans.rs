//! Which claims that await a pod Volume Warden deletes, and which it keeps. The tests create such
//! claims with the metadata that admission writes.

mod late;

use super::{
    fault_fixture::FaultFixture,
    support::{
        AWAITING_POD, CONTROLLER_ID, LONG_AGO, MANAGED_BY, PodSpace, awaiting, awaiting_since,
    },
};
use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use volume_warden_controlplane::{Rule, Warden, eventually};

/// Waits until Volume Warden has logged a line about the claim with this field.
async fn has_log_line(warden: &Warden, claim: &str, field: &str) -> Result<()> {
    let line = format!("/{claim} {field}");
    eventually(&line, async || warden.process().log().contains(&line)).await
}

/// Creates claims that Volume Warden must not delete; returns their names.
async fn create_claims_to_keep(fixture: &FaultFixture) -> Result<Vec<&'static str>> {
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let node = ["get", "node", "node-1", "-o", "jsonpath={.metadata.uid}"];
    let node = space.cluster.kubectl(&node).await?;
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": node});
    let awaiting_with = |metadata: Value| {
        let mut changes = awaiting();
        json_patch::merge(&mut changes, &json!({"metadata": metadata}));
        changes
    };
    let claims = [
        (
            "labelled",
            json!({"metadata": {"labels": {MANAGED_BY: CONTROLLER_ID}}}),
        ),
        ("unlabelled", awaiting_with(json!({"labels": null}))),
        (
            "foreign",
            awaiting_with(json!({"labels": {MANAGED_BY: "another-id"}})),
        ),
        ("owned", awaiting_with(json!({"ownerReferences": [&owner]}))),
        ("timeless", awaiting_since("some day")),
        ("restored", awaiting_since(LONG_AGO)),
    ];
    for (name, metadata) in &claims {
        pod_space.create_claim(name, metadata.clone()).await?;
    }
    // A user removes the owner to keep the data, and the pod is deleted.
    let pod = pod_space.request_claim("pod", "freed", json!({})).await?;
    pod_space.belongs("freed", &pod).await?;
    let without_owner = json!({"metadata": {"ownerReferences": null}});
    space.patch_claim("freed", without_owner.clone()).await?;
    space.delete_pod("pod").await?;
    // Another client adds an owner before the pod is stored, and a user removes that owner.
    let owned = awaiting_with(json!({"ownerReferences": [&owner]}));
    pod_space.create_claim("disowned", owned).await?;
    bind_and_wait_for_marker_removal(pod_space, "disowned").await?;
    space.patch_claim("disowned", without_owner).await?;
    let names = claims.iter().map(|(name, _)| *name);
    Ok(names.chain(["freed", "disowned"]).collect())
}

/// Binds the claim, and waits until Volume Warden has removed the marker.
async fn bind_and_wait_for_marker_removal(pod_space: &PodSpace, claim: &str) -> Result<()> {
    pod_space.bind(claim).await?;
    eventually("the claim no longer has the marker", async || {
        let claim = pod_space.claim(claim).await?;
        anyhow::Ok(!claim.annotations().contains_key(AWAITING_POD))
    })
    .await
}

/// Volume Warden deletes a claim whose pod was never created. It deletes no claim without a valid
/// marker or without its label, and none that has an owner.
#[tokio::test]
async fn only_claims_whose_pod_was_never_created_are_deleted() -> Result<()> {
    let fixture = FaultFixture::new("orphans").await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let warden = fixture.start_with_short_grace_period().await?;
    let kept = create_claims_to_keep(&fixture).await?;
    pod_space.create_claim("orphan", awaiting()).await?;
    space.claim_is_gone("orphan").await?;
    pod_space.wait_until_processed().await?;
    // The same after a restart of Volume Warden, which then evaluates all existing claims.
    drop(warden);
    pod_space.create_claim("orphan", awaiting()).await?;
    let _warden = fixture.start_with_short_grace_period().await?;
    space.claim_is_gone("orphan").await?;
    for name in kept {
        let claim = pod_space.claim(name).await?;
        ensure!(
            claim.metadata.deletion_timestamp.is_none(),
            "{name} is being deleted"
        );
    }
    assert_eq!(fixture.deleted_claims(), ["orphan"]);
    Ok(())
}

/// A pod uses a claim that it does not request: Volume Warden removes the marker once the claim is
/// bound, and keeps the claim even if the pod is deleted.
#[tokio::test]
async fn a_claim_that_another_pod_uses_is_kept() -> Result<()> {
    let fixture = FaultFixture::new("named").await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let _warden = fixture.start_with_short_grace_period().await?;
    let unscheduled = json!({"spec": {"schedulerName": "absent"}});
    space.create_pod("plain", "named", unscheduled).await?;
    let named = pod_space.create_claim("named", awaiting()).await?;
    bind_and_wait_for_marker_removal(pod_space, "named").await?;
    space.delete_pod("plain").await?;
    pod_space.create_claim("orphan", awaiting()).await?;
    space.claim_is_gone("orphan").await?;
    let kept = pod_space.claim("named").await?;
    assert_eq!(kept.uid(), named.uid());
    ensure!(kept.metadata.deletion_timestamp.is_none() && kept.owner_references().is_empty());
    assert_eq!(fixture.deleted_claims(), ["orphan"]);
    Ok(())
}

/// A pod that is created within the grace period gets the claim.
#[tokio::test]
async fn a_claim_awaits_its_pod_for_a_while() -> Result<()> {
    let fixture = FaultFixture::new("grace").await?;
    let pod_space = &fixture.pod_space;
    let warden = fixture.builder("warden").arg("--orphan-grace=1h");
    let warden = warden.start().await?;
    let claim = pod_space.create_claim("data", awaiting()).await?;
    has_log_line(
        &warden,
        "data",
        "reason=waiting for the pod that the claim was created for",
    )
    .await?;
    pod_space.wait_until_processed().await?;
    let pod = pod_space.request_claim("pod", "data", json!({})).await?;
    assert_eq!(pod_space.belongs("data", &pod).await?.uid(), claim.uid());
    ensure!(fixture.deleted_claims().is_empty());
    Ok(())
}

/// If pods cannot be read, Volume Warden neither adds an owner to a claim nor deletes a claim.
#[tokio::test]
async fn nothing_is_decided_while_pods_cannot_be_read() -> Result<()> {
    let fixture = FaultFixture::new("no-pods").await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let warden = fixture.start_with_short_grace_period().await?;
    let faults: [fn(Rule) -> Rule; 2] = [
        |rule| rule.respond(500, "InternalError", "no pods today"),
        Rule::cut,
    ];
    for (round, fault) in faults.into_iter().enumerate() {
        let (orphan, wanted) = (format!("orphan{round}"), format!("wanted{round}"));
        let pod_read = Rule::on("GET").path_contains(format!("/pods/{wanted}"));
        let broken =
            [Rule::list_of("pods"), pod_read].map(|read| fixture.interposer.add(fault(read)));
        pod_space.create_claim(&orphan, awaiting()).await?;
        pod_space.create_claim(&wanted, awaiting()).await?;
        pod_space.bind(&wanted).await?;
        let pod = pod_space.request_claim(&wanted, &wanted, json!({})).await?;
        has_log_line(&warden, &orphan, "error=pods could not be listed").await?;
        has_log_line(&warden, &wanted, "error=the pod could not be read").await?;
        for name in [&orphan, &wanted] {
            let claim = pod_space.claim(name).await?;
            ensure!(
                claim.metadata.deletion_timestamp.is_none(),
                "{name} is being deleted"
            );
            ensure!(claim.owner_references().is_empty(), "{name} has an owner");
        }
        drop(broken);
        space.claim_is_gone(&orphan).await?;
        pod_space.belongs(&wanted, &pod).await?;
    }
    Ok(())
}

/// The watch has not delivered two pods, but the live LIST contains them: the pod that requests its
/// claim becomes the owner, and the claim that the other pod uses is kept.
#[tokio::test]
async fn a_claim_of_a_pod_that_the_watch_has_not_delivered_is_kept() -> Result<()> {
    let fixture = FaultFixture::new("late-pods").await?;
    let (pod_space, space) = (&fixture.pod_space, &fixture.pod_space.space);
    let _warden = fixture.start_with_short_grace_period().await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    let pod = pod_space.request_claim("pod", "asked", json!({})).await?;
    let unscheduled = json!({"spec": {"schedulerName": "absent"}});
    space.create_pod("plain", "named", unscheduled).await?;
    let mut uids = Vec::new();
    for name in ["asked", "named"] {
        uids.push(pod_space.create_claim(name, awaiting()).await?.uid());
        pod_space.bind(name).await?;
    }
    pod_space.create_claim("orphan", awaiting()).await?;
    space.claim_is_gone("orphan").await?;
    let owned = pod_space.belongs("asked", &pod).await?;
    drop(frozen);
    pod_space.wait_until_processed().await?;
    assert_eq!(
        [owned.uid(), pod_space.claim("named").await?.uid()],
        uids[..]
    );
    assert_eq!(fixture.deleted_claims(), ["orphan"]);
    Ok(())
}
