//! Which volumes are labelled. Volume Warden serves no webhooks here, so the reconciler writes all
//! labels.

use super::{
    fault_fixture::FaultFixture,
    support::{LABEL, PROVISIONER, without_binder},
};
use crate::support::{claim, quiet};
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::PostParams;
use serde_json::json;
use std::collections::BTreeSet;
use volume_warden_controlplane::Rule;

/// PR-01..04, PR-07: a volume is labelled if each managed-by label of its claim has the controller
/// id. Before that, the volumes have no labels.
#[tokio::test]
async fn every_managed_by_label_of_the_claim_has_to_match() -> Result<()> {
    let fixture = FaultFixture::new("labels").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let _warden = fixture.start().await?;
    let unmanaged = [
        ("unlabelled", json!({"app": "web"})),
        ("half-foreign", json!({PROVISIONER: id, LABEL: "other"})),
        ("made-by-them", json!({PROVISIONER: "other", LABEL: id})),
        ("empty", json!({PROVISIONER: id, LABEL: ""})),
    ];
    let managed = [
        ("made", json!({PROVISIONER: id})),
        ("by-hand", json!({LABEL: id})),
        ("both", json!({PROVISIONER: id, LABEL: id})),
    ];
    for (name, labels) in unmanaged.iter().chain(&managed) {
        volume_space.pair(name, labels.clone()).await?;
    }
    for (name, _) in managed {
        volume_space.is_labelled(name, id).await?;
        let message = volume_space.has_events(name, "Associated", 1).await?;
        ensure!(message.contains(name), "{message}");
    }
    // These volumes were created first, so they have been processed.
    for (name, _) in unmanaged {
        assert_eq!(fixture.writes(name), 0, "{name}");
    }
    Ok(())
}

/// PR-05: a bound claim is labelled later. Its volume is then labelled, too, although nothing else
/// changes the volume, and keeps its other labels.
#[tokio::test]
async fn a_claim_that_is_labelled_later_gets_its_volume_labelled() -> Result<()> {
    let fixture = FaultFixture::new("later-label").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let _warden = fixture.start().await?;
    let labelled = json!({"metadata": {"labels": {"app": "web"}}});
    volume_space.create("data", labelled).await?;
    volume_space.claim("data", json!({})).await?;
    volume_space.has_phase("data", "Bound").await?;
    fixture.settled().await?;
    assert_eq!(fixture.writes("data"), 0);
    let label = json!({"metadata": {"labels": {PROVISIONER: id}}});
    volume_space.space.patch_claim("data", label).await?;
    volume_space.is_labelled("data", id).await?;
    let labels = volume_space.get("data").await?.metadata.labels;
    assert_eq!(
        labels.map(|labels| labels["app"].clone()).as_deref(),
        Some("web")
    );
    Ok(())
}

/// Until the volume is Bound, the binder writes it, and retries with a delay if a write fails.
#[tokio::test]
async fn a_volume_is_not_labelled_before_it_is_bound() -> Result<()> {
    let fixture = FaultFixture::on(without_binder().await?, "unbound").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let _warden = fixture.start().await?;
    let claim = volume_space
        .claim_any("data", json!({PROVISIONER: id}))
        .await?;
    let reference = json!({"namespace": id, "name": "data", "uid": claim.metadata.uid});
    let chosen = json!({"spec": {"claimRef": reference}});
    volume_space.create("data", chosen).await?;
    volume_space.set_phase("data", "Available").await?;
    fixture.settled().await?;
    assert_eq!(fixture.writes("data"), 0);
    volume_space.set_phase("data", "Bound").await?;
    volume_space.is_labelled("data", id).await?;
    volume_space
        .has_events("data", "Associated", 1)
        .await
        .map(drop)
}

/// PR-06: the claim has the controller id as label, but the label of the volume has another value
/// or is empty. The volume is not changed while it is Bound, or after its claim is deleted.
#[tokio::test]
async fn a_volume_labelled_for_another_controller_is_never_changed() -> Result<()> {
    let fixture = FaultFixture::new("foreign").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let warden = fixture.start().await?;
    for (name, value) in [("foreign", "other"), ("unnamed", "")] {
        let labels = json!({"metadata": {"labels": {LABEL: value}}});
        volume_space.create(name, labels).await?;
        volume_space.claim(name, json!({LABEL: id})).await?;
        volume_space.has_phase(name, "Bound").await?;
        volume_space.space.delete_claim(name).await?;
        volume_space.has_phase(name, "Released").await?;
    }
    fixture.settled().await?;
    for name in ["foreign", "unnamed"] {
        assert_eq!(fixture.writes(name), 0, "{name}");
        volume_space.has_phase(name, "Released").await?;
    }
    // They are no orphans: another controller may release them.
    assert_eq!(super::support::orphans(&warden).await?, 0);
    Ok(())
}

/// PR-08, PR-10: a volume that a user labelled keeps the label, and is released each time. No other
/// volume is labelled.
#[tokio::test]
async fn without_automatic_association_labels_are_only_read() -> Result<()> {
    let fixture = FaultFixture::new("by-hand").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let builder = fixture.builder();
    let builder = builder.arg("--disable-automatic-association");
    let _warden = builder.start().await?;
    volume_space
        .pair("unlabelled", json!({PROVISIONER: id}))
        .await?;
    let labelled = json!({"metadata": {"labels": {LABEL: id}}});
    volume_space.create("labelled", labelled).await?;
    for times in [1, 2] {
        volume_space.claim("labelled", json!({})).await?;
        volume_space.has_phase("labelled", "Bound").await?;
        volume_space.space.delete_claim("labelled").await?;
        volume_space
            .has_events("labelled", "Released", times)
            .await?;
        volume_space.has_phase("labelled", "Available").await?;
        volume_space.is_labelled("labelled", id).await?;
    }
    assert_eq!(fixture.accepted("labelled")?, 2);
    assert_eq!(fixture.writes("unlabelled"), 0);
    Ok(())
}

/// PR-16: the deleted claim of the volume had no label. A later claim of the same name has it.
#[tokio::test]
async fn a_later_claim_of_the_same_name_does_not_associate_the_volume() -> Result<()> {
    let fixture = FaultFixture::new("namesake").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let _warden = fixture.start().await?;
    volume_space.pair("data", json!({})).await?;
    volume_space.space.delete_claim("data").await?;
    volume_space.has_phase("data", "Released").await?;
    let namesake = claim("data", json!({"metadata": {"labels": {LABEL: id}}}))?;
    let claims = &volume_space.space.claims;
    claims.create(&PostParams::default(), &namesake).await?;
    // This also shows that Volume Warden has seen the later claim.
    volume_space.pair("other", json!({LABEL: id})).await?;
    volume_space.is_labelled("other", id).await?;
    volume_space.has_events("data", "Orphaned", 1).await?;
    assert_eq!(fixture.writes("data"), 0);
    volume_space.has_phase("data", "Released").await
}

/// PR-20, without the webhook: the reconciler sees the volume only after its claim is deleted.
#[tokio::test]
async fn a_claim_deleted_before_its_volume_is_seen_still_counts() -> Result<()> {
    let fixture = FaultFixture::new("late-volume").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let _warden = fixture.start().await?;
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("persistentvolumes").freeze_stream());
    volume_space.pair("data", json!({PROVISIONER: id})).await?;
    volume_space.space.delete_claim("data").await?;
    volume_space.has_phase("data", "Released").await?;
    assert_eq!(fixture.writes("data"), 0);
    drop(frozen);
    volume_space.is_free("data").await?;
    volume_space
        .has_events("data", "Released", 1)
        .await
        .map(drop)
}

/// PR-21: volumes whose claims are not managed cause no calls, neither before nor after they are
/// bound. No other scenario runs in the cluster: Volume Warden would process a volume that another
/// scenario reserves for a claim.
#[tokio::test]
async fn unrelated_volumes_cause_no_calls() -> Result<()> {
    let (cluster, _alone) = quiet().await?;
    let fixture = FaultFixture::on(cluster, "unrelated").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let _warden = fixture.start().await?;
    let before = fixture.interposer.requests().len();
    let pairs = (0..100).map(|n| async move {
        let name = format!("of-others-{n}");
        // The volume and the claim name each other, so the binder does not search for a match.
        let claim = json!({"namespace": volume_space.space.name, "name": name});
        volume_space
            .create(&name, json!({"spec": {"claimRef": claim}}))
            .await?;
        volume_space.claim(&name, json!({"app": "web"})).await?;
        volume_space.has_phase(&name, "Bound").await
    });
    let pairs = stream::iter(pairs).buffer_unordered(8);
    pairs.try_collect::<()>().await?;
    volume_space.pair("own", json!({PROVISIONER: id})).await?;
    volume_space.is_labelled("own", id).await?;
    volume_space.has_events("own", "Associated", 1).await?;
    let requests = fixture.interposer.requests().split_off(before);
    // Volume Warden makes these calls without any volumes, too.
    let idle = ["/leases", "/secrets/", "webhookconfigurations/"];
    let calls: BTreeSet<_> = requests
        .iter()
        .filter(|seen| !seen.query.contains("watch=true"))
        .filter(|seen| !idle.iter().any(|part| seen.path.contains(part)))
        .map(|seen| (&*seen.method, &*seen.path))
        .collect();
    // A set, because the first patch may have failed if the binder wrote the volume before it.
    let volume = format!("/api/v1/persistentvolumes/{}", volume_space.pv("own"));
    let event = "/apis/events.k8s.io/v1/namespaces/default/events";
    assert_eq!(calls, [("PATCH", &*volume), ("POST", event)].into());
    Ok(())
}
