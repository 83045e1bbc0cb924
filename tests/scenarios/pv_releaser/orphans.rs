//! Orphaned volumes, which stay Released: how they are reported, and how they are released later.

use super::{
    fault_fixture::FaultFixture,
    support::{LABEL, PROVISIONER, orphans, without_binder},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::{Rule, RuleHandle, Warden, eventually};

const ANNOTATION: &str = "reclaimable-pv-releaser.kubernetes.io/controller-id";

async fn has_orphans(warden: &Warden, count: u64) -> Result<()> {
    eventually(&format!("there are {count} orphans"), async || {
        let found = orphans(warden).await?;
        ensure!(found == count, "{found}");
        Ok(())
    })
    .await
}

/// PR-19: the claim is created and deleted while no Volume Warden runs, so nothing records that the
/// volume is managed. An Event recommends a label, and with that label the volume is released.
#[tokio::test]
async fn a_volume_of_an_unknown_claim_is_reported_as_orphaned() -> Result<()> {
    let fixture = FaultFixture::new("orphan").await?;
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    volume_space.pair("data", json!({PROVISIONER: id})).await?;
    volume_space.space.delete_claim("data").await?;
    volume_space.has_phase("data", "Released").await?;
    let warden = fixture.start().await?;
    has_orphans(&warden, 1).await?;
    let message = volume_space.has_events("data", "Orphaned", 1).await?;
    let advice = format!("{LABEL}={id}");
    ensure!(message.contains(&advice), "{message}");
    assert_eq!(fixture.writes("data"), 0);
    volume_space.has_phase("data", "Released").await?;
    volume_space
        .patch("data", json!({"metadata": {"labels": {LABEL: id}}}))
        .await?;
    volume_space.is_free("data").await?;
    has_orphans(&warden, 0).await?;
    volume_space
        .has_events("data", "Orphaned", 1)
        .await
        .map(drop)
}

/// A Volume Warden with `--associate-by-storage-class`, and a class. The scenario sets the phases
/// of volumes.
struct ClassAssociation {
    fixture: FaultFixture,
    classes: Api<StorageClass>,
    warden: Warden,
}

impl ClassAssociation {
    async fn new(label: &str) -> Result<Self> {
        let fixture = FaultFixture::on(without_binder().await?, label).await?;
        let builder = fixture.builder().arg("--associate-by-storage-class");
        Ok(Self {
            warden: builder.start().await?,
            classes: Api::all(fixture.volume_space.space.cluster.client()),
            fixture,
        })
    }

    async fn create_class(&self, id: Option<&str>) -> Result<()> {
        let annotations = id.map(|id| json!({ANNOTATION: id}));
        let class = serde_json::from_value(json!({
            "metadata": {"name": self.fixture.volume_space.id(), "annotations": annotations},
            "provisioner": "example.com/none", "reclaimPolicy": "Retain",
        }))?;
        self.classes.create(&PostParams::default(), &class).await?;
        Ok(())
    }

    async fn annotate(&self, id: Option<&str>) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: id}}}));
        let (name, parameters) = (self.fixture.volume_space.id(), PatchParams::default());
        self.classes.patch(name, &parameters, &patch).await?;
        Ok(())
    }

    /// Creates a Released volume without a managed-by label.
    async fn create_released(&self, name: &str) -> Result<()> {
        let labels = json!({"metadata": {"labels": {"app": "web"}}});
        self.fixture
            .volume_space
            .create_with_deleted_claim(name, labels)
            .await?;
        self.fixture.volume_space.set_phase(name, "Released").await
    }

    /// Makes LISTs of VolumeAttachments fail, so that no volume is released before the next steps
    /// of the scenario.
    fn fail_attachment_lists(&self) -> RuleHandle {
        let lists = Rule::list_of("volumeattachments");
        let fail = lists.respond(500, "InternalError", "not now");
        self.fixture.interposer.add(fail)
    }

    /// Checks that there are `count` orphans and that Volume Warden has not written the volume.
    async fn is_not_released(&self, name: &str, count: u64) -> Result<()> {
        has_orphans(&self.warden, count).await?;
        self.fixture.settled().await?;
        assert_eq!(self.fixture.writes(name), 0, "{name}");
        Ok(())
    }

    async fn is_released(&self, name: &str) -> Result<()> {
        self.fixture.volume_space.has_no_claim(name).await?;
        self.fixture
            .volume_space
            .has_events(name, "Released", 1)
            .await?;
        let labels = self.fixture.volume_space.get(name).await?.metadata.labels;
        assert_eq!(serde_json::to_value(labels)?, json!({"app": "web"}));
        Ok(())
    }
}

/// PR-31: volumes of a class are released once it is annotated, and not after the annotation is
/// removed.
#[tokio::test]
async fn volumes_of_an_annotated_class_are_released() -> Result<()> {
    let association = ClassAssociation::new("adopted").await?;
    let id = association.fixture.volume_space.id();
    association.create_class(None).await?;
    association.create_released("before").await?;
    association.is_not_released("before", 1).await?;
    association.annotate(Some(id)).await?;
    association.is_released("before").await?;
    has_orphans(&association.warden, 0).await?;
    association.create_released("while").await?;
    association.is_released("while").await?;
    let failing = association.fail_attachment_lists();
    association.create_released("after").await?;
    association.annotate(None).await?;
    has_orphans(&association.warden, 1).await?;
    drop(failing);
    association.is_not_released("after", 1).await
}

/// Volumes of a class that is annotated for another controller are neither released nor orphans.
/// Volumes of a deleted class are orphans.
#[tokio::test]
async fn volumes_of_a_deleted_or_foreign_class_are_not_released() -> Result<()> {
    let association = ClassAssociation::new("classless").await?;
    let id = association.fixture.volume_space.id();
    association.create_class(Some("other")).await?;
    association.create_released("foreign").await?;
    association.is_not_released("foreign", 0).await?;
    association.annotate(Some(id)).await?;
    association.is_released("foreign").await?;
    let failing = association.fail_attachment_lists();
    association.create_released("late").await?;
    association
        .classes
        .delete(id, &DeleteParams::default())
        .await?;
    has_orphans(&association.warden, 1).await?;
    drop(failing);
    association.is_not_released("late", 1).await
}
