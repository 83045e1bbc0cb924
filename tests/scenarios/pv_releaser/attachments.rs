//! A volume with a VolumeAttachment is not released, because its node may still write to it.

use super::fault_fixture::FaultFixture;
use anyhow::Result;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::{Rule, eventually};

impl FaultFixture {
    fn attachments(&self) -> Api<VolumeAttachment> {
        Api::all(self.volume_space.space.cluster.client())
    }

    async fn attach(&self, name: &str) -> Result<()> {
        let pv = self.volume_space.pv(name);
        let attachment = serde_json::from_value(json!({
            "metadata": {"name": pv},
            "spec": {"attacher": "csi.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": pv}},
        }))?;
        let attachments = self.attachments();
        attachments
            .create(&PostParams::default(), &attachment)
            .await?;
        Ok(())
    }

    async fn detach(&self, name: &str) -> Result<()> {
        let (pv, parameters) = (self.volume_space.pv(name), DeleteParams::default());
        self.attachments().delete(&pv, &parameters).await?;
        Ok(())
    }
}

#[tokio::test]
async fn an_attached_volume_is_released_once_it_is_detached() -> Result<()> {
    let fixture = FaultFixture::new("attached").await?;
    let _warden = fixture.start().await?;
    fixture.attach("data").await?;
    fixture.create_released("data").await?;
    fixture.settled().await?;
    assert_eq!(fixture.writes("data"), 0);
    fixture.detach("data").await?;
    fixture.volume_space.is_free("data").await.map(drop)
}

/// The watch of VolumeAttachments is frozen, so it delivers neither the creation nor the deletion
/// of the attachment. The live LIST does.
#[tokio::test]
async fn an_attachment_that_the_watch_has_not_delivered_delays_the_release() -> Result<()> {
    let fixture = FaultFixture::new("late-attachment").await?;
    let _warden = fixture.start().await?;
    let watch = Rule::watch_of("volumeattachments").freeze_stream();
    let _frozen = fixture.interposer.add(watch);
    fixture.attach("data").await?;
    let lists = fixture.interposer.add(Rule::list_of("volumeattachments"));
    fixture.create_released("data").await?;
    eventually("the release was tried several times", async || {
        lists.taken() >= 3
    })
    .await?;
    fixture.settled().await?;
    assert_eq!(fixture.writes("data"), 0);
    fixture.detach("data").await?;
    fixture.volume_space.is_free("data").await.map(drop)
}

#[tokio::test]
async fn a_failed_list_of_attachments_releases_nothing() -> Result<()> {
    let fixture = FaultFixture::new("failed-attachments").await?;
    let _warden = fixture.start().await?;
    let broken = Rule::list_of("volumeattachments").respond(500, "InternalError", "not today");
    let broken = fixture.interposer.add(broken);
    fixture.create_released("a").await?;
    fixture.create_released("b").await?;
    eventually("the release was tried several times", async || {
        broken.taken() >= 4
    })
    .await?;
    assert_eq!(fixture.writes("a") + fixture.writes("b"), 0);
    drop(broken);
    fixture.volume_space.is_free("a").await?;
    fixture.volume_space.is_free("b").await.map(drop)
}
