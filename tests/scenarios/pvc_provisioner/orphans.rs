//! Which claims are collected, and which never are. The tests create claims that await a pod as
//! admission would leave them.

mod late;

use super::{
    fault_fixture::FaultFixture,
    support::{Askers, ID, LABEL, LONG_AGO, MARK, awaiting, marked},
};
use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use volume_warden_controlplane::{Rule, Warden, eventually};

/// Waits until a log line about the claim has this field.
async fn logs(warden: &Warden, claim: &str, field: &str) -> Result<()> {
    let line = format!("/{claim} {field}");
    eventually(&line, async || warden.process().log().contains(&line)).await
}

/// Creates claims that are no orphans; returns their names.
async fn spared(fixture: &FaultFixture) -> Result<Vec<&'static str>> {
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
    let node = ["get", "node", "node-1", "-o", "jsonpath={.metadata.uid}"];
    let node = space.cluster.kubectl(&node).await?;
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": node});
    let changed = |metadata: Value| {
        let mut marked = awaiting();
        json_patch::merge(&mut marked, &json!({"metadata": metadata}));
        marked
    };
    let spared = [
        ("labelled", json!({"metadata": {"labels": {LABEL: ID}}})),
        ("unlabelled", changed(json!({"labels": null}))),
        ("foreign", changed(json!({"labels": {LABEL: "another-id"}}))),
        ("owned", changed(json!({"ownerReferences": [&owner]}))),
        ("timeless", marked("some day")),
        ("restored", marked(LONG_AGO)),
    ];
    for (name, metadata) in &spared {
        askers.create_claim(name, metadata.clone()).await?;
    }
    // A user removes the owner to keep the data, and the pod is deleted.
    let pod = askers.ask("pod", "freed", json!({})).await?;
    askers.belongs("freed", &pod).await?;
    let free = json!({"metadata": {"ownerReferences": null}});
    space.patch_claim("freed", free.clone()).await?;
    space.delete_pod("pod").await?;
    // Another client makes an object the owner before the pod is stored, and a user removes it.
    let owned = changed(json!({"ownerReferences": [&owner]}));
    askers.create_claim("disowned", owned).await?;
    loses_the_mark(askers, "disowned").await?;
    space.patch_claim("disowned", free).await?;
    let names = spared.iter().map(|(name, _)| *name);
    Ok(names.chain(["freed", "disowned"]).collect())
}

/// Binds the claim, and waits until Volume Warden has removed the mark.
async fn loses_the_mark(askers: &Askers, claim: &str) -> Result<()> {
    askers.bind(claim).await?;
    eventually("the claim has lost the mark", async || {
        let claim = askers.claim(claim).await?;
        anyhow::Ok(!claim.annotations().contains_key(MARK))
    })
    .await
}

/// Volume Warden collects no claim without its mark, and none that has an owner.
#[tokio::test]
async fn only_claims_whose_pod_was_never_created_are_collected() -> Result<()> {
    let fixture = FaultFixture::new("orphans").await?;
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
    let warden = fixture.start_impatient().await?;
    let spared = spared(&fixture).await?;
    askers.create_claim("orphan", awaiting()).await?;
    space.claim_is_gone("orphan").await?;
    askers.settled().await?;
    // Also by a successor, which begins with all existing claims.
    drop(warden);
    askers.create_claim("orphan", awaiting()).await?;
    let _warden = fixture.start_impatient().await?;
    space.claim_is_gone("orphan").await?;
    for name in spared {
        let claim = askers.claim(name).await?;
        ensure!(
            claim.metadata.deletion_timestamp.is_none(),
            "{name} is being deleted"
        );
    }
    assert_eq!(fixture.deleted(), ["orphan"]);
    Ok(())
}

/// A pod uses the claim without a request: the claim loses the mark once it is bound, and is kept
/// even if that pod is deleted.
#[tokio::test]
async fn a_claim_that_another_pod_uses_is_kept() -> Result<()> {
    let fixture = FaultFixture::new("named").await?;
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
    let _warden = fixture.start_impatient().await?;
    let unscheduled = json!({"spec": {"schedulerName": "absent"}});
    space.create_pod("plain", "named", unscheduled).await?;
    let named = askers.create_claim("named", awaiting()).await?;
    loses_the_mark(askers, "named").await?;
    space.delete_pod("plain").await?;
    askers.create_claim("orphan", awaiting()).await?;
    space.claim_is_gone("orphan").await?;
    let kept = askers.claim("named").await?;
    assert_eq!(kept.uid(), named.uid());
    ensure!(kept.metadata.deletion_timestamp.is_none() && kept.owner_references().is_empty());
    assert_eq!(fixture.deleted(), ["orphan"]);
    Ok(())
}

/// A pod created within the grace period gets the claim.
#[tokio::test]
async fn a_claim_awaits_its_pod_for_a_while() -> Result<()> {
    let fixture = FaultFixture::new("grace").await?;
    let askers = &fixture.askers;
    let warden = fixture.start().await?;
    let claim = askers.create_claim("data", awaiting()).await?;
    logs(
        &warden,
        "data",
        "reason=waiting for the pod that the claim was created for",
    )
    .await?;
    askers.settled().await?;
    let pod = askers.ask("pod", "data", json!({})).await?;
    assert_eq!(askers.belongs("data", &pod).await?.uid(), claim.uid());
    ensure!(fixture.deleted().is_empty());
    Ok(())
}

/// After a failed read nothing is decided: neither the owner of a claim nor that it has none.
#[tokio::test]
async fn nothing_is_decided_while_pods_cannot_be_read() -> Result<()> {
    let fixture = FaultFixture::new("no-pods").await?;
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
    let warden = fixture.start_impatient().await?;
    let faults: [fn(Rule) -> Rule; 2] = [
        |rule| rule.respond(500, "InternalError", "no pods today"),
        Rule::cut,
    ];
    for (round, fault) in faults.into_iter().enumerate() {
        let (orphan, wanted) = (format!("orphan{round}"), format!("wanted{round}"));
        let pod_read = Rule::on("GET").path_contains(format!("/pods/{wanted}"));
        let broken =
            [Rule::list_of("pods"), pod_read].map(|read| fixture.interposer.add(fault(read)));
        askers.create_claim(&orphan, awaiting()).await?;
        askers.create_claim(&wanted, awaiting()).await?;
        askers.bind(&wanted).await?;
        let pod = askers.ask(&wanted, &wanted, json!({})).await?;
        logs(&warden, &orphan, "error=pods could not be listed").await?;
        logs(&warden, &wanted, "error=the pod could not be read").await?;
        for name in [&orphan, &wanted] {
            let claim = askers.claim(name).await?;
            ensure!(
                claim.metadata.deletion_timestamp.is_none(),
                "{name} is being deleted"
            );
            ensure!(claim.owner_references().is_empty(), "{name} has an owner");
        }
        drop(broken);
        space.claim_is_gone(&orphan).await?;
        askers.belongs(&wanted, &pod).await?;
    }
    Ok(())
}

/// The watch has not delivered the pods; the live LIST shows them, so one gets its claim, and the
/// claim of the other one is kept.
#[tokio::test]
async fn a_claim_of_a_pod_that_the_watch_has_not_delivered_is_kept() -> Result<()> {
    let fixture = FaultFixture::new("late-pods").await?;
    let (askers, space) = (&fixture.askers, &fixture.askers.space);
    let _warden = fixture.start_impatient().await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("pods").freeze_stream());
    frozen.held(1).await?;
    let pod = askers.ask("pod", "asked", json!({})).await?;
    let unscheduled = json!({"spec": {"schedulerName": "absent"}});
    space.create_pod("plain", "named", unscheduled).await?;
    let mut uids = Vec::new();
    for name in ["asked", "named"] {
        uids.push(askers.create_claim(name, awaiting()).await?.uid());
        askers.bind(name).await?;
    }
    askers.create_claim("orphan", awaiting()).await?;
    space.claim_is_gone("orphan").await?;
    let given = askers.belongs("asked", &pod).await?;
    drop(frozen);
    askers.settled().await?;
    assert_eq!([given.uid(), askers.claim("named").await?.uid()], uids[..]);
    assert_eq!(fixture.deleted(), ["orphan"]);
    Ok(())
}
