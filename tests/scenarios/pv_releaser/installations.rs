//! Installations beside each other, of one namespace, and in the soft mode.

use super::{
    fault_fixture::FaultFixture,
    support::{Estate, LABEL, PROVISIONER, orphans},
};
use crate::support::{BINARY, bare};
use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use volume_warden_controlplane::{Warden, eventually};

/// PR-26: neither is given the name of its Lease.
#[tokio::test]
async fn two_controller_ids_work_side_by_side() -> Result<()> {
    let estate = Estate::new(bare().await?, "two").await?;
    let ids = ["blue", "green"].map(|colour| format!("{}-{colour}", estate.id()));
    let [blue, green] = &ids;
    let _wardens = (
        estate.warden(blue).start().await?,
        estate.warden(green).start().await?,
    );
    let leases: Api<Lease> = Api::namespaced(estate.space.cluster.client(), "volume-warden");
    for id in &ids {
        eventually(&format!("{id} has its Lease"), async || {
            let lease = leases.get(&format!("pv-releaser-{id}")).await?;
            let holder = lease.spec.and_then(|spec| spec.holder_identity);
            anyhow::Ok(holder.as_deref() == Some("own"))
        })
        .await?;
    }
    for id in &ids {
        estate.pair(id, json!({PROVISIONER: id})).await?;
        estate.is_labelled(id, id).await?;
    }
    for id in &ids {
        estate.space.delete_claim(id).await?;
        estate.is_free(id).await?;
        // Had the other one done a part of it, there would be more of these.
        for reason in ["Associated", "Released"] {
            estate.reported(id, reason, 1).await?;
        }
    }
    Ok(())
}

/// PR-26: what is another's is left to it, also while it is not there.
#[tokio::test]
async fn the_work_of_an_installation_that_is_away_is_left_to_it() -> Result<()> {
    let fixture = FaultFixture::new("away-id").await?;
    let estate = &fixture.estate;
    let away = format!("{}-away", estate.id());
    let labels = json!({"metadata": {"labels": {LABEL: away}}});
    estate.create_abandoned("released", labels).await?;
    estate.pair("bound", json!({PROVISIONER: away})).await?;
    let _warden = fixture.start().await?;
    fixture.settled().await?;
    assert_eq!(
        (fixture.writes("released"), fixture.writes("bound")),
        (0, 0)
    );
    let _away = estate.warden(&away).start().await?;
    estate.is_free("released").await?;
    estate.is_labelled("bound", &away).await
}

/// PR-27: volumes have no namespace. Claims have.
#[tokio::test]
async fn of_one_namespace_only_claims_are_known() -> Result<()> {
    let (fixture, other) = (
        FaultFixture::new("one").await?,
        Estate::new(bare().await?, "another").await?,
    );
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let warden = fixture.start().await?;
    let log = warden.process().log();
    ensure!(log.contains("volumes have no namespace"), "{log}");
    other.pair("foreign", json!({PROVISIONER: id})).await?;
    let labels = json!({"metadata": {"labels": {LABEL: id}}});
    other.create_abandoned("labelled", labels).await?;
    other.is_free("labelled").await?;
    estate.pair("own", json!({PROVISIONER: id})).await?;
    estate.is_labelled("own", id).await?;
    other.space.delete_claim("foreign").await?;
    other.is("foreign", "Released").await?;
    fixture.settled().await?;
    let foreign = other.get("foreign").await?.metadata.labels;
    assert_eq!(foreign, None);
    assert_eq!(orphans(&warden).await?, 0);
    Ok(())
}

/// PR-30
#[tokio::test]
async fn released_softly_a_volume_is_for_a_claim_of_that_name_only() -> Result<()> {
    let fixture = FaultFixture::new("soft").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let builder = fixture.builder().arg("--release-mode=soft");
    let _warden = builder.start().await?;
    estate.pair("data", json!({PROVISIONER: id})).await?;
    estate.is_labelled("data", id).await?;
    estate.space.delete_claim("data").await?;
    estate.reported("data", "Released", 1).await?;
    estate.is("data", "Available").await?;
    let volume = estate.get("data").await?;
    assert_eq!(volume.metadata.labels.unwrap_or_default().get(LABEL), None);
    let left = volume
        .spec
        .and_then(|spec| spec.claim_ref)
        .unwrap_or_default();
    let name = (left.namespace.as_deref(), left.name.as_deref());
    assert_eq!(name, (Some(id), Some("data")));
    assert_eq!((left.uid, left.resource_version), (None, None));
    estate.claim_any("other", json!({PROVISIONER: id})).await?;
    found_nothing(estate, "other").await?;
    estate.claim_any("data", json!({PROVISIONER: id})).await?;
    eventually("the claim is bound", async || {
        let spec = estate
            .space
            .claims
            .get("data")
            .await?
            .spec
            .unwrap_or_default();
        ensure!(
            spec.volume_name == Some(estate.pv("data")),
            "{:?}",
            spec.volume_name
        );
        Ok(())
    })
    .await?;
    // And all over again.
    estate.is_labelled("data", id).await
}

/// The binder has looked for a volume for the claim: finding none, it wants one made.
async fn found_nothing(estate: &Estate, claim: &str) -> Result<()> {
    eventually(&format!("claim {claim} gets nothing"), async || {
        let events = estate.space.events_with("ProvisioningFailed").await?;
        let mut about = events.iter().map(|event| &event.involved_object.name);
        anyhow::Ok(about.any(|name| name.as_deref() == Some(claim)))
    })
    .await?;
    let status = estate.space.claims.get(claim).await?.status;
    assert_eq!(
        status.and_then(|status| status.phase).as_deref(),
        Some("Pending")
    );
    Ok(())
}

/// An id that cannot be a Lease's name is refused with advice, and following it helps.
#[tokio::test]
async fn an_id_that_no_lease_can_have_needs_a_name_for_it() -> Result<()> {
    let estate = Estate::new(bare().await?, "odd-id").await?;
    let id = format!("{}_Odd", estate.id());
    let builder = Warden::builder(&estate.space.cluster, BINARY);
    let builder = builder.name(estate.id()).arg("--components=pv-releaser");
    let refused = builder.arg(format!("--controller-id={id}")).start().await;
    let refusal = refused.err().map(|error| format!("{error:#}"));
    ensure!(
        refusal
            .iter()
            .any(|text| text.contains("--leader-elect-resource-name")),
        "{refusal:?}"
    );
    let lease = format!("--leader-elect-resource-name={}", estate.id());
    let _warden = estate.warden(&id).arg(lease).start().await?;
    estate.pair("data", json!({LABEL: id})).await?;
    estate.is_labelled("data", &id).await
}
