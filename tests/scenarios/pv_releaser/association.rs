//! Which volumes are labelled. No webhooks are installed here, so the reconciler writes everything.

use super::{
    fault_fixture::FaultFixture,
    support::{LABEL, PROVISIONER, still},
};
use crate::support::{claim, quiet};
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::PostParams;
use serde_json::json;
use std::collections::BTreeSet;
use volume_warden_controlplane::Rule;

/// PR-01..04, PR-07: the volumes have no labels at all before.
#[tokio::test]
async fn every_label_of_the_claim_has_to_be_own() -> Result<()> {
    let fixture = FaultFixture::new("labels").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let _warden = fixture.start().await?;
    let others = [
        ("unlabelled", json!({"app": "web"})),
        ("half-foreign", json!({PROVISIONER: id, LABEL: "other"})),
        ("made-by-them", json!({PROVISIONER: "other", LABEL: id})),
        ("empty", json!({PROVISIONER: id, LABEL: ""})),
    ];
    let own = [
        ("made", json!({PROVISIONER: id})),
        ("by-hand", json!({LABEL: id})),
        ("both", json!({PROVISIONER: id, LABEL: id})),
    ];
    for (name, labels) in others.iter().chain(&own) {
        estate.pair(name, labels.clone()).await?;
    }
    for (name, _) in own {
        estate.is_labelled(name, id).await?;
        let message = estate.reported(name, "Associated", 1).await?;
        ensure!(message.contains(name), "{message}");
    }
    // These came first, so they have been looked at.
    for (name, _) in others {
        assert_eq!(fixture.writes(name), 0, "{name}");
    }
    Ok(())
}

/// PR-05: and its volume, which has labels of its own, need not change for that.
#[tokio::test]
async fn a_claim_that_is_labelled_later_gets_its_volume_labelled() -> Result<()> {
    let fixture = FaultFixture::new("later-label").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let _warden = fixture.start().await?;
    let labelled = json!({"metadata": {"labels": {"app": "web"}}});
    estate.create("data", labelled).await?;
    estate.claim("data", json!({})).await?;
    estate.is("data", "Bound").await?;
    fixture.settled().await?;
    assert_eq!(fixture.writes("data"), 0);
    let label = json!({"metadata": {"labels": {PROVISIONER: id}}});
    estate.space.patch_claim("data", label).await?;
    estate.is_labelled("data", id).await?;
    let labels = estate.get("data").await?.metadata.labels;
    assert_eq!(
        labels.map(|labels| labels["app"].clone()).as_deref(),
        Some("web")
    );
    Ok(())
}

/// The binder writes the volume until it is Bound, and tries again late where that fails.
#[tokio::test]
async fn a_volume_is_not_labelled_before_it_is_bound() -> Result<()> {
    let fixture = FaultFixture::on(still().await?, "unbound").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let _warden = fixture.start().await?;
    let claim = estate.claim_any("data", json!({PROVISIONER: id})).await?;
    let reference = json!({"namespace": id, "name": "data", "uid": claim.metadata.uid});
    let chosen = json!({"spec": {"claimRef": reference}});
    estate.create("data", chosen).await?;
    estate.turn("data", "Available").await?;
    fixture.settled().await?;
    assert_eq!(fixture.writes("data"), 0);
    estate.turn("data", "Bound").await?;
    estate.is_labelled("data", id).await?;
    estate.reported("data", "Associated", 1).await.map(drop)
}

/// PR-06: whatever its claim says, and also once that is gone.
#[tokio::test]
async fn a_volume_that_is_labelled_for_somebody_else_is_never_touched() -> Result<()> {
    let fixture = FaultFixture::new("foreign").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let warden = fixture.start().await?;
    for (name, value) in [("foreign", "other"), ("unnamed", "")] {
        let labels = json!({"metadata": {"labels": {LABEL: value}}});
        estate.create(name, labels).await?;
        estate.claim(name, json!({LABEL: id})).await?;
        estate.is(name, "Bound").await?;
        estate.space.delete_claim(name).await?;
        estate.is(name, "Released").await?;
    }
    fixture.settled().await?;
    for name in ["foreign", "unnamed"] {
        assert_eq!(fixture.writes(name), 0, "{name}");
        estate.is(name, "Released").await?;
    }
    // Its owner may be about to release it.
    assert_eq!(super::support::orphans(&warden).await?, 0);
    Ok(())
}

/// PR-08, PR-10: a volume labelled by hand keeps the label, and is released each time.
#[tokio::test]
async fn without_automatic_association_labels_are_only_read() -> Result<()> {
    let fixture = FaultFixture::new("by-hand").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let builder = fixture.builder();
    let builder = builder.arg("--disable-automatic-association");
    let _warden = builder.start().await?;
    estate.pair("unlabelled", json!({PROVISIONER: id})).await?;
    let labelled = json!({"metadata": {"labels": {LABEL: id}}});
    estate.create("labelled", labelled).await?;
    for times in [1, 2] {
        estate.claim("labelled", json!({})).await?;
        estate.is("labelled", "Bound").await?;
        estate.space.delete_claim("labelled").await?;
        estate.reported("labelled", "Released", times).await?;
        estate.is("labelled", "Available").await?;
        estate.is_labelled("labelled", id).await?;
    }
    assert_eq!(fixture.accepted("labelled")?, 2);
    assert_eq!(fixture.writes("unlabelled"), 0);
    Ok(())
}

/// PR-16: the volume's claim had that name, and had no label.
#[tokio::test]
async fn a_later_claim_of_that_name_says_nothing_about_the_volume() -> Result<()> {
    let fixture = FaultFixture::new("namesake").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let _warden = fixture.start().await?;
    estate.pair("data", json!({})).await?;
    estate.space.delete_claim("data").await?;
    estate.is("data", "Released").await?;
    let namesake = claim("data", json!({"metadata": {"labels": {LABEL: id}}}))?;
    let claims = &estate.space.claims;
    claims.create(&PostParams::default(), &namesake).await?;
    // Which also shows that the claim is known by then.
    estate.pair("other", json!({LABEL: id})).await?;
    estate.is_labelled("other", id).await?;
    estate.reported("data", "Orphaned", 1).await?;
    assert_eq!(fixture.writes("data"), 0);
    estate.is("data", "Released").await
}

/// PR-20, without the webhook: the reconciler first sees the volume after its claim is gone.
#[tokio::test]
async fn a_claim_that_is_gone_before_its_volume_is_seen_still_counts() -> Result<()> {
    let fixture = FaultFixture::new("late-volume").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let _warden = fixture.start().await?;
    let late = fixture
        .interposer
        .add(Rule::watch_of("persistentvolumes").freeze_stream());
    estate.pair("data", json!({PROVISIONER: id})).await?;
    estate.space.delete_claim("data").await?;
    estate.is("data", "Released").await?;
    assert_eq!(fixture.writes("data"), 0);
    drop(late);
    estate.is_free("data").await?;
    estate.reported("data", "Released", 1).await.map(drop)
}

/// PR-21: others' volumes and claims, bound and not, cost no call. No scenario beside it: a volume
/// that one of them reserves for a claim would be looked at.
#[tokio::test]
async fn unrelated_volumes_cost_nothing() -> Result<()> {
    let (cluster, _alone) = quiet().await?;
    let fixture = FaultFixture::on(cluster, "unrelated").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let _warden = fixture.start().await?;
    let before = fixture.interposer.requests().len();
    let pairs = (0..100).map(|n| async move {
        let name = format!("of-others-{n}");
        // Both sides know each other, so the binder need not search.
        let claim = json!({"namespace": estate.space.name, "name": name});
        estate
            .create(&name, json!({"spec": {"claimRef": claim}}))
            .await?;
        estate.claim(&name, json!({"app": "web"})).await?;
        estate.is(&name, "Bound").await
    });
    let pairs = stream::iter(pairs).buffer_unordered(8);
    pairs.try_collect::<()>().await?;
    estate.pair("own", json!({PROVISIONER: id})).await?;
    estate.is_labelled("own", id).await?;
    estate.reported("own", "Associated", 1).await?;
    let requests = fixture.interposer.requests().split_off(before);
    // What it does without volumes as well.
    let idle = ["/leases/", "/secrets/", "webhookconfigurations/"];
    let calls: BTreeSet<_> = requests
        .iter()
        .filter(|seen| !seen.query.contains("watch=true"))
        .filter(|seen| !idle.iter().any(|part| seen.path.contains(part)))
        .map(|seen| (&*seen.method, &*seen.path))
        .collect();
    // The binder may have been faster at its volume, so that the first try was in vain.
    let volume = format!("/api/v1/persistentvolumes/{}", estate.pv("own"));
    let event = "/apis/events.k8s.io/v1/namespaces/default/events";
    assert_eq!(calls, [("PATCH", &*volume), ("POST", event)].into());
    Ok(())
}
