//! What is released, what is not, and what is left of the claim.

use super::{
    fault_fixture::FaultFixture,
    support::{BOUND_BY_CONTROLLER, Estate, LABEL, LEGACY, PROVISIONER, still},
};
use crate::support::bare;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{core::v1::PersistentVolume, storage::v1::StorageClass};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

/// PR-09, PR-22, PR-23
#[tokio::test]
async fn a_release_is_one_write_that_touches_nothing_else() -> Result<()> {
    let fixture = FaultFixture::new("release").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let _warden = fixture.start().await?;
    estate.create("data", rich()).await?;
    estate.claim("data", json!({PROVISIONER: id})).await?;
    estate.is("data", "Bound").await?;
    estate.is_labelled("data", id).await?;
    let bound = estate.get("data").await?;
    ensure!(
        bound.annotations().contains_key(BOUND_BY_CONTROLLER),
        "{bound:?}"
    );
    let before = rest(&fixture, "data").await?;
    // The Event is published after the answer, and then the audit log has the request.
    estate.reported("data", "Associated", 1).await?;
    assert_eq!(fixture.accepted("data")?, 1, "the label");
    estate.space.delete_claim("data").await?;
    estate.is_free("data").await?;
    assert_eq!(rest(&fixture, "data").await?, before);
    let message = estate.reported("data", "Released", 1).await?;
    assert_eq!(fixture.accepted("data")?, 2, "the label and the release");
    let claim = format!("{}/data", estate.space.name);
    ensure!(message.contains(&claim), "{message}");
    Ok(())
}

/// With much that Volume Warden does not read.
fn rich() -> Value {
    let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
    json!({
        "metadata": {
            "labels": {"app": "web"}, "annotations": {"example.com/note": "mine"}, "finalizers": ["example.com/hold"],
        },
        "spec": {
            "hostPath": null, "mountOptions": ["ro"],
            "csi": {"driver": "csi.example.com", "volumeHandle": "a", "volumeAttributes": {"speed": "high"}},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
        },
    })
}

/// All of the volume but what a release takes and what everybody changes.
async fn rest(fixture: &FaultFixture, name: &str) -> Result<Value> {
    let kind = ApiResource::erase::<PersistentVolume>(&());
    let volumes: Api<DynamicObject> = Api::all_with(fixture.estate.space.cluster.client(), &kind);
    let found = volumes.get(&fixture.estate.pv(name)).await?;
    let mut found = serde_json::to_value(found)?;
    let taken = [
        ("", "status"),
        ("/metadata", "resourceVersion"),
        ("/metadata", "managedFields"),
        ("/metadata/labels", LABEL),
        ("/metadata/annotations", BOUND_BY_CONTROLLER),
        ("/spec", "claimRef"),
    ];
    for (parent, key) in taken {
        let parent = found.pointer_mut(parent).and_then(Value::as_object_mut);
        parent.context("no such field")?.remove(key);
    }
    Ok(found)
}

/// PR-12: it is managed, but only the phase Released says that no claim has it any more.
#[tokio::test]
async fn a_volume_that_is_not_released_is_left_alone() -> Result<()> {
    let fixture = FaultFixture::on(still().await?, "phases").await?;
    let estate = &fixture.estate;
    let _warden = fixture.start().await?;
    let own = json!({"metadata": {"labels": {LABEL: estate.id()}}});
    let phases = ["Bound", "Available", "Pending", "Failed"];
    let name = |phase: &str| phase.to_lowercase();
    for phase in phases {
        estate.create_abandoned(&name(phase), own.clone()).await?;
        estate.turn(&name(phase), phase).await?;
    }
    fixture.settled().await?;
    for phase in phases {
        assert_eq!(fixture.writes(&name(phase)), 0, "{phase}");
    }
    // Nothing else was missing.
    estate.turn("bound", "Released").await?;
    estate.is_disclaimed("bound").await
}

/// PR-13: what is on it may be on its way out.
#[tokio::test]
async fn a_volume_that_does_not_stay_is_not_released() -> Result<()> {
    let fixture = FaultFixture::on(still().await?, "goes").await?;
    let estate = &fixture.estate;
    let _warden = fixture.start().await?;
    let labels = json!({LABEL: estate.id()});
    let cases = [
        (
            "policy",
            json!({"metadata": {"labels": labels}, "spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        ),
        (
            "deleted",
            json!({"metadata": {"labels": labels, "finalizers": ["example.com/hold"]}}),
        ),
    ];
    for (name, changes) in cases {
        estate.create_abandoned(name, changes).await?;
    }
    let (pv, now) = (estate.pv("deleted"), DeleteParams::default());
    estate.space.volumes.delete(&pv, &now).await?;
    for name in ["policy", "deleted"] {
        estate.turn(name, "Released").await?;
        estate.reported(name, "ErrReleasePV", 1).await?;
        // Whatever else happens to it, users know already.
        let patch = json!({"metadata": {"annotations": {"example.com/note": "mine"}}});
        estate.patch(name, patch).await?;
    }
    fixture.settled().await?;
    for name in ["policy", "deleted"] {
        estate.reported(name, "ErrReleasePV", 1).await?;
        assert_eq!(fixture.writes(name), 0, "{name}");
    }
    Ok(())
}

/// PR-11: also where the label stays, so that nothing but its missing claim says that it was released.
#[tokio::test]
async fn a_volume_whose_phase_is_late_is_released_once() -> Result<()> {
    for (label, option) in [("late-phase", "false"), ("late-by-hand", "true")] {
        let fixture = FaultFixture::on(still().await?, label).await?;
        let estate = &fixture.estate;
        let option = format!("--disable-automatic-association={option}");
        let _warden = fixture.builder().arg(option).start().await?;
        let own = json!({"metadata": {"labels": {LABEL: estate.id()}}});
        estate.create_abandoned("data", own).await?;
        estate.turn("data", "Released").await?;
        estate.is_disclaimed("data").await?;
        for n in 0..20 {
            let patch = json!({"metadata": {"annotations": {"example.com/turn": n.to_string()}}});
            estate.patch("data", patch).await?;
        }
        fixture.settled().await?;
        assert_eq!(fixture.writes("data"), 1, "{label}");
        estate.reported("data", "Released", 1).await?;
        estate.is("data", "Released").await?;
    }
    Ok(())
}

/// PR-25: the legacy label counts like the documented one, and is removed with it.
#[tokio::test]
async fn the_label_that_the_original_wrote_is_understood() -> Result<()> {
    let fixture = FaultFixture::new("legacy").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let labels = [
        ("legacy", json!({LEGACY: id})),
        ("both", json!({LEGACY: id, LABEL: id})),
        ("foreign", json!({LEGACY: "other", LABEL: id})),
    ];
    for (name, labels) in labels {
        let labels = json!({"metadata": {"labels": labels}});
        estate.create_abandoned(name, labels).await?;
        estate.is(name, "Released").await?;
    }
    let _warden = fixture.start().await?;
    estate.is_free("legacy").await?;
    estate.is_free("both").await?;
    fixture.settled().await?;
    assert_eq!(fixture.writes("foreign"), 0);
    estate.is("foreign", "Released").await
}

/// PR-25, switched off: as if it were any other label.
#[tokio::test]
async fn the_label_that_the_original_wrote_can_be_ignored() -> Result<()> {
    let fixture = FaultFixture::new("no-legacy").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let builder = fixture.builder().arg("--legacy-label=false");
    let _warden = builder.start().await?;
    for (name, labels) in [
        ("legacy", json!({LEGACY: id})),
        ("both", json!({LEGACY: "other", LABEL: id})),
    ] {
        let labels = json!({"metadata": {"labels": labels}});
        estate.create_abandoned(name, labels).await?;
    }
    estate.is("both", "Available").await?;
    let left = estate.get("both").await?.metadata.labels;
    assert_eq!(serde_json::to_value(left)?, json!({LEGACY: "other"}));
    fixture.settled().await?;
    assert_eq!(fixture.writes("legacy"), 0);
    estate.is("legacy", "Released").await
}

/// The annotation of a class counts whether or not classes assign volumes to the installation. With
/// an id of its own, an installation makes volumes free for any claim.
#[tokio::test]
async fn a_class_chooses_who_gets_its_volumes() -> Result<()> {
    let estate = Estate::new(bare().await?, "scoped-class").await?;
    estate.create_class(estate.id(), "Immediate").await?;
    let scope = json!({"volume-warden.dev/release-scope": "namespace"});
    let patch = Patch::Merge(json!({"metadata": {"annotations": scope}}));
    let classes: Api<StorageClass> = Api::all(estate.space.cluster.client());
    let parameters = PatchParams::default();
    classes.patch(estate.id(), &parameters, &patch).await?;
    let _warden = estate.warden(estate.id()).start().await?;
    estate
        .pair("data", json!({PROVISIONER: estate.id()}))
        .await?;
    estate.is_known(&estate.get("data").await?).await?;
    estate.space.delete_claim("data").await?;
    estate.is_parked("data", "volume-warden").await
}
