//! Which volumes are released, and what a release changes.

use super::{
    fault_fixture::FaultFixture,
    support::{BOUND_BY_CONTROLLER, LABEL, LEGACY, PROVISIONER, VolumeSpace, without_binder},
};
use crate::support::bare;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{core::v1::PersistentVolume, storage::v1::StorageClass};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

/// PR-09, PR-22, PR-23: a release removes the claimRef, the label and the annotation of the binder,
/// and changes no other field.
#[tokio::test]
async fn a_release_is_one_write_that_touches_nothing_else() -> Result<()> {
    let fixture = FaultFixture::new("release").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let _warden = fixture.start().await?;
    volume_space.create("data", with_many_fields()).await?;
    volume_space.claim("data", json!({PROVISIONER: id})).await?;
    volume_space.has_phase("data", "Bound").await?;
    volume_space.is_labelled("data", id).await?;
    let bound = volume_space.get("data").await?;
    ensure!(
        bound.annotations().contains_key(BOUND_BY_CONTROLLER),
        "{bound:?}"
    );
    let before = other_fields(&fixture, "data").await?;
    // The Event is published after the answer, and then the audit log has the request.
    volume_space.has_events("data", "Associated", 1).await?;
    assert_eq!(fixture.accepted("data")?, 1, "the label");
    volume_space.space.delete_claim("data").await?;
    volume_space.is_free("data").await?;
    assert_eq!(other_fields(&fixture, "data").await?, before);
    let message = volume_space.has_events("data", "Released", 1).await?;
    assert_eq!(fixture.accepted("data")?, 2, "the label and the release");
    let claim = format!("{}/data", volume_space.space.name);
    ensure!(message.contains(&claim), "{message}");
    Ok(())
}

/// Fields of a volume that Volume Warden does not read.
fn with_many_fields() -> Value {
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

/// The fields of the volume that a release must not change.
async fn other_fields(fixture: &FaultFixture, name: &str) -> Result<Value> {
    let kind = ApiResource::erase::<PersistentVolume>(&());
    let volumes: Api<DynamicObject> =
        Api::all_with(fixture.volume_space.space.cluster.client(), &kind);
    let found = volumes.get(&fixture.volume_space.pv(name)).await?;
    let mut found = serde_json::to_value(found)?;
    let changed = [
        ("", "status"),
        ("/metadata", "resourceVersion"),
        ("/metadata", "managedFields"),
        ("/metadata/labels", LABEL),
        ("/metadata/annotations", BOUND_BY_CONTROLLER),
        ("/spec", "claimRef"),
    ];
    for (parent, key) in changed {
        let parent = found.pointer_mut(parent).and_then(Value::as_object_mut);
        parent.context("no such field")?.remove(key);
    }
    Ok(found)
}

/// PR-12: a managed volume is released only in the phase Released. In any other phase a claim may
/// be bound to it.
#[tokio::test]
async fn a_volume_that_is_not_released_is_left_alone() -> Result<()> {
    let fixture = FaultFixture::on(without_binder().await?, "phases").await?;
    let volume_space = &fixture.volume_space;
    let _warden = fixture.start().await?;
    let own = json!({"metadata": {"labels": {LABEL: volume_space.id()}}});
    let phases = ["Bound", "Available", "Pending", "Failed"];
    let name = |phase: &str| phase.to_lowercase();
    for phase in phases {
        volume_space
            .create_with_deleted_claim(&name(phase), own.clone())
            .await?;
        volume_space.set_phase(&name(phase), phase).await?;
    }
    fixture.settled().await?;
    for phase in phases {
        assert_eq!(fixture.writes(&name(phase)), 0, "{phase}");
    }
    // With the phase Released the same volume is released.
    volume_space.set_phase("bound", "Released").await?;
    volume_space.has_no_claim("bound").await
}

/// PR-13: the reclaim policy is Delete, or the volume is being deleted, so its data may be deleted.
#[tokio::test]
async fn a_volume_whose_data_may_be_deleted_is_not_released() -> Result<()> {
    let fixture = FaultFixture::on(without_binder().await?, "goes").await?;
    let volume_space = &fixture.volume_space;
    let _warden = fixture.start().await?;
    let labels = json!({LABEL: volume_space.id()});
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
        volume_space
            .create_with_deleted_claim(name, changes)
            .await?;
    }
    let (pv, parameters) = (volume_space.pv("deleted"), DeleteParams::default());
    volume_space.space.volumes.delete(&pv, &parameters).await?;
    for name in ["policy", "deleted"] {
        volume_space.set_phase(name, "Released").await?;
        volume_space.has_events(name, "ErrReleasePV", 1).await?;
        // A later change of the volume does not repeat the Event.
        let patch = json!({"metadata": {"annotations": {"example.com/note": "mine"}}});
        volume_space.patch(name, patch).await?;
    }
    fixture.settled().await?;
    for name in ["policy", "deleted"] {
        volume_space.has_events(name, "ErrReleasePV", 1).await?;
        assert_eq!(fixture.writes(name), 0, "{name}");
    }
    Ok(())
}

/// PR-11: with a late phase, a volume is released once. This includes a volume that keeps its
/// label, so that only the missing claimRef shows that it was released.
#[tokio::test]
async fn a_volume_whose_phase_is_late_is_released_once() -> Result<()> {
    for (label, option) in [("late-phase", "false"), ("late-by-hand", "true")] {
        let fixture = FaultFixture::on(without_binder().await?, label).await?;
        let volume_space = &fixture.volume_space;
        let option = format!("--disable-automatic-association={option}");
        let _warden = fixture.builder().arg(option).start().await?;
        let own = json!({"metadata": {"labels": {LABEL: volume_space.id()}}});
        volume_space.create_with_deleted_claim("data", own).await?;
        volume_space.set_phase("data", "Released").await?;
        volume_space.has_no_claim("data").await?;
        for n in 0..20 {
            let patch = json!({"metadata": {"annotations": {"example.com/turn": n.to_string()}}});
            volume_space.patch("data", patch).await?;
        }
        fixture.settled().await?;
        assert_eq!(fixture.writes("data"), 1, "{label}");
        volume_space.has_events("data", "Released", 1).await?;
        volume_space.has_phase("data", "Released").await?;
    }
    Ok(())
}

/// PR-25: the legacy label counts like the documented one, and is removed with it.
#[tokio::test]
async fn the_legacy_label_counts_like_the_documented_one() -> Result<()> {
    let fixture = FaultFixture::new("legacy").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let labels = [
        ("legacy", json!({LEGACY: id})),
        ("both", json!({LEGACY: id, LABEL: id})),
        ("foreign", json!({LEGACY: "other", LABEL: id})),
    ];
    for (name, labels) in labels {
        let labels = json!({"metadata": {"labels": labels}});
        volume_space.create_with_deleted_claim(name, labels).await?;
        volume_space.has_phase(name, "Released").await?;
    }
    let _warden = fixture.start().await?;
    volume_space.is_free("legacy").await?;
    volume_space.is_free("both").await?;
    fixture.settled().await?;
    assert_eq!(fixture.writes("foreign"), 0);
    volume_space.has_phase("foreign", "Released").await
}

/// PR-25: with `--legacy-label=false`, the legacy label has no meaning.
#[tokio::test]
async fn the_legacy_label_can_be_ignored() -> Result<()> {
    let fixture = FaultFixture::new("no-legacy").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let builder = fixture.builder().arg("--legacy-label=false");
    let _warden = builder.start().await?;
    for (name, labels) in [
        ("legacy", json!({LEGACY: id})),
        ("both", json!({LEGACY: "other", LABEL: id})),
    ] {
        let labels = json!({"metadata": {"labels": labels}});
        volume_space.create_with_deleted_claim(name, labels).await?;
    }
    volume_space.has_phase("both", "Available").await?;
    let left = volume_space.get("both").await?.metadata.labels;
    assert_eq!(serde_json::to_value(left)?, json!({LEGACY: "other"}));
    fixture.settled().await?;
    assert_eq!(fixture.writes("legacy"), 0);
    volume_space.has_phase("legacy", "Released").await
}

/// The annotation of a class sets the release scope of its volumes, also without
/// `--associate-by-storage-class`. The default scope with this controller id is `cluster`.
#[tokio::test]
async fn the_annotation_of_a_class_sets_the_release_scope() -> Result<()> {
    let volume_space = VolumeSpace::new(bare().await?, "scoped-class").await?;
    volume_space
        .create_class(volume_space.id(), "Immediate")
        .await?;
    let scope = json!({"volume-warden.dev/release-scope": "namespace"});
    let patch = Patch::Merge(json!({"metadata": {"annotations": scope}}));
    let classes: Api<StorageClass> = Api::all(volume_space.space.cluster.client());
    let parameters = PatchParams::default();
    classes
        .patch(volume_space.id(), &parameters, &patch)
        .await?;
    let _warden = volume_space.warden(volume_space.id()).start().await?;
    volume_space
        .pair("data", json!({PROVISIONER: volume_space.id()}))
        .await?;
    volume_space
        .has_recorded_namespace(&volume_space.get("data").await?)
        .await?;
    volume_space.space.delete_claim("data").await?;
    volume_space.is_parked("data", "volume-warden").await
}
