//! Volumes that stay Released: who is notified, and how they come back all the same.

use super::{
    fault_fixture::FaultFixture,
    support::{LABEL, PROVISIONER, orphans, still},
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

/// PR-19: the claim was created and deleted while no Volume Warden ran, so nothing records that the
/// volume was managed. Events say what to do, and it works.
#[tokio::test]
async fn a_volume_that_nobody_knows_is_reported_of() -> Result<()> {
    let fixture = FaultFixture::new("orphan").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    estate.pair("data", json!({PROVISIONER: id})).await?;
    estate.space.delete_claim("data").await?;
    estate.is("data", "Released").await?;
    let warden = fixture.start().await?;
    has_orphans(&warden, 1).await?;
    let message = estate.reported("data", "Orphaned", 1).await?;
    let advice = format!("{LABEL}={id}");
    ensure!(message.contains(&advice), "{message}");
    assert_eq!(fixture.writes("data"), 0);
    estate.is("data", "Released").await?;
    estate
        .patch("data", json!({"metadata": {"labels": {LABEL: id}}}))
        .await?;
    estate.is_free("data").await?;
    has_orphans(&warden, 0).await?;
    estate.reported("data", "Orphaned", 1).await.map(drop)
}

/// Volumes of a class, where classes count. The phases are the scenario's.
struct Adoption {
    fixture: FaultFixture,
    classes: Api<StorageClass>,
    warden: Warden,
}

impl Adoption {
    async fn new(label: &str) -> Result<Self> {
        let fixture = FaultFixture::on(still().await?, label).await?;
        let builder = fixture.builder().arg("--associate-by-storage-class");
        Ok(Self {
            warden: builder.start().await?,
            classes: Api::all(fixture.estate.space.cluster.client()),
            fixture,
        })
    }

    async fn create_class(&self, id: Option<&str>) -> Result<()> {
        let annotations = id.map(|id| json!({ANNOTATION: id}));
        let class = serde_json::from_value(json!({
            "metadata": {"name": self.fixture.estate.id(), "annotations": annotations},
            "provisioner": "example.com/none", "reclaimPolicy": "Retain",
        }))?;
        self.classes.create(&PostParams::default(), &class).await?;
        Ok(())
    }

    async fn annotate(&self, id: Option<&str>) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: id}}}));
        let (name, parameters) = (self.fixture.estate.id(), PatchParams::default());
        self.classes.patch(name, &parameters, &patch).await?;
        Ok(())
    }

    async fn abandon(&self, name: &str) -> Result<()> {
        let labels = json!({"metadata": {"labels": {"app": "web"}}});
        self.fixture.estate.create_abandoned(name, labels).await?;
        self.fixture.estate.turn(name, "Released").await
    }

    /// Nothing is released meanwhile, or what a scenario says next might come too late.
    fn cannot_confirm(&self) -> RuleHandle {
        let lists = Rule::list_of("volumeattachments");
        let fail = lists.respond(500, "InternalError", "not now");
        self.fixture.interposer.add(fail)
    }

    /// It stays, and is counted among so many orphans.
    async fn stays(&self, name: &str, count: u64) -> Result<()> {
        has_orphans(&self.warden, count).await?;
        self.fixture.settled().await?;
        assert_eq!(self.fixture.writes(name), 0, "{name}");
        Ok(())
    }

    async fn is_released(&self, name: &str) -> Result<()> {
        self.fixture.estate.is_disclaimed(name).await?;
        self.fixture.estate.reported(name, "Released", 1).await?;
        let labels = self.fixture.estate.get(name).await?.metadata.labels;
        assert_eq!(serde_json::to_value(labels)?, json!({"app": "web"}));
        Ok(())
    }
}

/// PR-31; and once the class says nothing any more, its volumes stay.
#[tokio::test]
async fn a_class_that_is_annotated_gives_its_volumes_back() -> Result<()> {
    let adoption = Adoption::new("adopted").await?;
    let id = adoption.fixture.estate.id();
    adoption.create_class(None).await?;
    adoption.abandon("before").await?;
    adoption.stays("before", 1).await?;
    adoption.annotate(Some(id)).await?;
    adoption.is_released("before").await?;
    has_orphans(&adoption.warden, 0).await?;
    adoption.abandon("while").await?;
    adoption.is_released("while").await?;
    let unsure = adoption.cannot_confirm();
    adoption.abandon("after").await?;
    adoption.annotate(None).await?;
    has_orphans(&adoption.warden, 1).await?;
    drop(unsure);
    adoption.stays("after", 1).await
}

/// As after its removal. A class of another controller's is for them: its volumes are no orphans either.
#[tokio::test]
async fn a_class_that_is_gone_or_somebody_elses_gives_nothing_back() -> Result<()> {
    let adoption = Adoption::new("classless").await?;
    let id = adoption.fixture.estate.id();
    adoption.create_class(Some("other")).await?;
    adoption.abandon("foreign").await?;
    adoption.stays("foreign", 0).await?;
    adoption.annotate(Some(id)).await?;
    adoption.is_released("foreign").await?;
    let unsure = adoption.cannot_confirm();
    adoption.abandon("late").await?;
    adoption
        .classes
        .delete(id, &DeleteParams::default())
        .await?;
    has_orphans(&adoption.warden, 1).await?;
    drop(unsure);
    adoption.stays("late", 1).await
}
