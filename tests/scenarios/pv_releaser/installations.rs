//! Several installations, the option `--namespace`, and the release mode `soft`.

use super::{
    fault_fixture::FaultFixture,
    support::{LABEL, PROVISIONER, VolumeSpace, orphans},
};
use crate::support::{BINARY, bare};
use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use volume_warden_controlplane::{Warden, eventually};

/// PR-26: neither has a flag for the name of its Lease, so the name contains the id.
#[tokio::test]
async fn two_controller_ids_work_side_by_side() -> Result<()> {
    let volume_space = VolumeSpace::new(bare().await?, "two").await?;
    let ids = ["blue", "green"].map(|colour| format!("{}-{colour}", volume_space.id()));
    let [blue, green] = &ids;
    let _wardens = (
        volume_space.warden(blue).start().await?,
        volume_space.warden(green).start().await?,
    );
    let leases: Api<Lease> = Api::namespaced(volume_space.space.cluster.client(), "volume-warden");
    for id in &ids {
        eventually(&format!("{id} holds its Lease"), async || {
            let lease = leases.get(&format!("pv-releaser-{id}")).await?;
            let holder = lease.spec.and_then(|spec| spec.holder_identity);
            anyhow::Ok(holder.as_deref() == Some("own"))
        })
        .await?;
    }
    for id in &ids {
        volume_space.pair(id, json!({PROVISIONER: id})).await?;
        volume_space.is_labelled(id, id).await?;
    }
    for id in &ids {
        volume_space.space.delete_claim(id).await?;
        volume_space.is_free(id).await?;
        for reason in ["Associated", "Released"] {
            volume_space.has_events(id, reason, 1).await?;
        }
    }
    // An installation that has released a later volume has had its turn for all earlier changes.
    for id in &ids {
        let later = format!("{id}-later");
        volume_space.pair(&later, json!({PROVISIONER: id})).await?;
        volume_space.is_labelled(&later, id).await?;
        volume_space.space.delete_claim(&later).await?;
        volume_space.has_events(&later, "Released", 1).await?;
    }
    // There would be more Events if the other installation had handled the volume, too.
    for id in &ids {
        for reason in ["Associated", "Released"] {
            let events = volume_space.events_about(id, reason).await?;
            let single = events.iter().all(|event| event.series.is_none());
            ensure!(single && events.len() == 1, "{events:?}");
        }
    }
    Ok(())
}

/// PR-26: volumes and claims of another installation are left unchanged, also while it does not
/// run.
#[tokio::test]
async fn volumes_of_a_stopped_installation_are_left_unchanged() -> Result<()> {
    let fixture = FaultFixture::new("away-id").await?;
    let volume_space = &fixture.volume_space;
    let away = format!("{}-away", volume_space.id());
    let labels = json!({"metadata": {"labels": {LABEL: away}}});
    volume_space
        .create_with_deleted_claim("released", labels)
        .await?;
    volume_space
        .pair("bound", json!({PROVISIONER: away}))
        .await?;
    let _warden = fixture.start().await?;
    fixture.settled().await?;
    assert_eq!(
        (fixture.writes("released"), fixture.writes("bound")),
        (0, 0)
    );
    let _away = volume_space.warden(&away).start().await?;
    volume_space.is_free("released").await?;
    volume_space.is_labelled("bound", &away).await
}

/// PR-27: with `--namespace`, Volume Warden knows only the claims of that namespace, but all
/// volumes.
#[tokio::test]
async fn with_a_namespace_only_its_claims_are_known() -> Result<()> {
    let (fixture, other) = (
        FaultFixture::new("one").await?,
        VolumeSpace::new(bare().await?, "another").await?,
    );
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let warden = fixture.start().await?;
    let log = warden.process().log();
    ensure!(log.contains("volumes have no namespace"), "{log}");
    other.pair("foreign", json!({PROVISIONER: id})).await?;
    let labels = json!({"metadata": {"labels": {LABEL: id}}});
    other.create_with_deleted_claim("labelled", labels).await?;
    other.is_free("labelled").await?;
    volume_space.pair("own", json!({PROVISIONER: id})).await?;
    volume_space.is_labelled("own", id).await?;
    other.space.delete_claim("foreign").await?;
    other.has_phase("foreign", "Released").await?;
    fixture.settled().await?;
    let foreign = other.get("foreign").await?.metadata.labels;
    assert_eq!(foreign, None);
    assert_eq!(orphans(&warden).await?, 0);
    Ok(())
}

/// PR-30: with the release mode `soft`, the claimRef keeps the namespace and name of the claim.
#[tokio::test]
async fn a_soft_release_is_for_a_claim_of_the_same_name_only() -> Result<()> {
    let fixture = FaultFixture::new("soft").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let builder = fixture.builder().arg("--release-mode=soft");
    let _warden = builder.start().await?;
    volume_space.pair("data", json!({PROVISIONER: id})).await?;
    volume_space.is_labelled("data", id).await?;
    volume_space.space.delete_claim("data").await?;
    volume_space.has_events("data", "Released", 1).await?;
    volume_space.has_phase("data", "Available").await?;
    let volume = volume_space.get("data").await?;
    assert_eq!(volume.metadata.labels.unwrap_or_default().get(LABEL), None);
    let left = volume
        .spec
        .and_then(|spec| spec.claim_ref)
        .unwrap_or_default();
    let name = (left.namespace.as_deref(), left.name.as_deref());
    assert_eq!(name, (Some(id), Some("data")));
    assert_eq!((left.uid, left.resource_version), (None, None));
    volume_space
        .claim_any("other", json!({PROVISIONER: id}))
        .await?;
    gets_no_volume(volume_space, "other").await?;
    volume_space
        .claim_any("data", json!({PROVISIONER: id}))
        .await?;
    eventually("the claim is bound", async || {
        let spec = volume_space
            .space
            .claims
            .get("data")
            .await?
            .spec
            .unwrap_or_default();
        ensure!(
            spec.volume_name == Some(volume_space.pv("data")),
            "{:?}",
            spec.volume_name
        );
        Ok(())
    })
    .await?;
    // The volume is then labelled again.
    volume_space.is_labelled("data", id).await
}

/// Waits until the binder has found no volume for the claim and tried to provision one, and checks
/// that the claim is Pending.
async fn gets_no_volume(volume_space: &VolumeSpace, claim: &str) -> Result<()> {
    eventually(&format!("claim {claim} gets no volume"), async || {
        let events = volume_space.space.events_with("ProvisioningFailed").await?;
        let mut about = events.iter().map(|event| &event.involved_object.name);
        anyhow::Ok(about.any(|name| name.as_deref() == Some(claim)))
    })
    .await?;
    let status = volume_space.space.claims.get(claim).await?.status;
    assert_eq!(
        status.and_then(|status| status.phase).as_deref(),
        Some("Pending")
    );
    Ok(())
}

/// A controller id that cannot be part of the name of a Lease is refused. The message recommends a
/// flag, and with that flag Volume Warden starts.
#[tokio::test]
async fn a_controller_id_that_no_lease_name_can_have_needs_a_lease_name() -> Result<()> {
    let volume_space = VolumeSpace::new(bare().await?, "odd-id").await?;
    let id = format!("{}_Odd", volume_space.id());
    let builder = Warden::builder(&volume_space.space.cluster, BINARY);
    let builder = builder
        .name(volume_space.id())
        .arg("--components=pv-releaser");
    let refused = builder.arg(format!("--controller-id={id}")).start().await;
    let refusal = refused.err().map(|error| format!("{error:#}"));
    ensure!(
        refusal
            .iter()
            .any(|text| text.contains("--leader-elect-resource-name")),
        "{refusal:?}"
    );
    let lease = format!("--leader-elect-resource-name={}", volume_space.id());
    let _warden = volume_space.warden(&id).arg(lease).start().await?;
    volume_space.pair("data", json!({LABEL: id})).await?;
    volume_space.is_labelled("data", &id).await
}
