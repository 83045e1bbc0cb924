//! Which volumes the driver deletes, and when.

use super::{CsiFixture, Disk, names};
use crate::pvc_trash::support::{WINDOW, policy_of, record};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::storage::v1::VolumeAttachment,
    jiff::{SignedDuration, Timestamp},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use std::collections::BTreeSet;
use volume_warden_controlplane::eventually;

const DELETE: &str = "DeleteVolume";

#[tokio::test]
async fn exactly_the_due_volumes_are_deleted_and_none_before() -> Result<()> {
    let fixture = CsiFixture::new("csi-due", json!({WINDOW: "1h"})).await?;
    let short = json!({"metadata": {"annotations": {WINDOW: "2s"}}});
    let due = fixture.bound(&names("due", 5), &short).await?;
    for disk in &due {
        eventually("the window is recorded", async || {
            let volume = fixture.trash_space.is_enabled(&disk.volume).await?;
            ensure!(record(&volume)?["windowSeconds"] == 2, "{volume:?}");
            Ok(())
        })
        .await?;
    }
    let kept = fixture.enabled(&names("kept", 5)).await?;
    fixture.delete_claims(&due).await?;
    fixture.delete_claims(&kept).await?;
    let all: Vec<_> = kept.iter().collect();
    fixture.are_the_only_volumes(&all).await?;
    fixture.are_in_trash(&kept).await?;
    let handles: BTreeSet<_> = due.iter().map(|disk| disk.handle.clone()).collect();
    assert_eq!(fixture.deletions()?, handles);
    fixture
        .none_was_deleted_early(SignedDuration::from_secs(2))
        .await?;
    fixture.purge(&kept).await?;
    fixture.are_the_only_volumes(&[]).await
}

/// The driver deletes the volume only after external-attacher has detached it.
#[tokio::test]
async fn an_attached_volume_is_deleted_after_it_was_detached() -> Result<()> {
    let fixture = CsiFixture::new("csi-attached", json!({WINDOW: "1h"})).await?;
    let disks = fixture.enabled(&names("data", 2)).await?;
    let (attached, canary) = disks.split_at(1);
    let attachments: Api<VolumeAttachment> = Api::all(fixture.trash_space.space.cluster.client());
    fixture.attach(&attachments, &attached[0]).await?;
    fixture.delete_claims(&disks).await?;
    fixture.are_in_trash(&disks).await?;
    fixture.purge(attached).await?;
    // The canary is purged after Volume Warden has checked the attached volume.
    fixture.purge(canary).await?;
    fixture.are_the_only_volumes(&[&attached[0]]).await?;
    let volume = fixture.trash_space.is_in_trash(&attached[0].volume).await?;
    ensure!(policy_of(&volume) == "Retain");
    attachments
        .delete("csi-attached", &DeleteParams::default())
        .await?;
    fixture.are_the_only_volumes(&[]).await?;
    let calls = fixture.csi.calls()?;
    let calls = calls
        .iter()
        .filter(|call| call.volume == attached[0].handle);
    let mut methods: Vec<_> = calls.map(|call| call.method.as_str()).collect();
    // external-provisioner may call DeleteVolume twice.
    methods.dedup();
    let expected = [
        "CreateVolume",
        "ControllerPublishVolume",
        "ControllerUnpublishVolume",
        DELETE,
    ];
    assert_eq!(methods, expected);
    Ok(())
}

/// This also holds for volumes whose objects are deleted during the failure, and for volumes that
/// were created before the class had an undelete window.
#[tokio::test]
async fn a_purge_survives_a_failure_of_the_storage() -> Result<()> {
    let fixture = CsiFixture::new("csi-broken", json!({})).await?;
    let mut disks = fixture.bound(&names("late", 2), &json!({})).await?;
    fixture.trash_space.set_window(Some("1h")).await?;
    for disk in &disks {
        fixture.trash_space.is_enabled(&disk.volume).await?;
    }
    disks.extend(fixture.enabled(&names("data", 2)).await?);
    fixture.delete_claims(&disks).await?;
    fixture.are_in_trash(&disks).await?;
    fixture.csi.fail(Some(DELETE))?;
    fixture.purge(&disks).await?;
    fixture.are_purged(&disks).await?;
    let handles: BTreeSet<_> = disks.iter().map(|disk| disk.handle.clone()).collect();
    eventually("all deletions have failed", async || {
        let calls = fixture.csi.calls()?.into_iter();
        let failed: BTreeSet<_> = calls
            .filter(|call| call.method == DELETE && call.failed)
            .map(|call| call.volume)
            .collect();
        ensure!(failed == handles, "{failed:?}");
        anyhow::Ok(())
    })
    .await?;
    for disk in disks.iter().step_by(2) {
        fixture.delete_object(disk).await?;
    }
    assert_eq!(fixture.csi.volumes()?, handles);
    fixture.csi.fail(None)?;
    fixture.are_the_only_volumes(&[]).await
}

#[tokio::test]
async fn a_purge_survives_an_outage_of_the_provisioner() -> Result<()> {
    let mut fixture = CsiFixture::new("csi-down", json!({WINDOW: "1h"})).await?;
    let disks = fixture.enabled(&names("data", 4)).await?;
    let (purged, kept) = disks.split_at(2);
    fixture.delete_claims(purged).await?;
    fixture.are_in_trash(purged).await?;
    fixture.csi.stop_provisioner();
    fixture.purge(purged).await?;
    fixture.are_purged(purged).await?;
    fixture.delete_object(&purged[0]).await?;
    fixture.delete_claims(kept).await?;
    fixture.are_in_trash(kept).await?;
    assert_eq!(fixture.deletions()?, BTreeSet::new());
    fixture
        .csi
        .start_provisioner(&fixture.trash_space.space.cluster)?;
    let kept: Vec<_> = kept.iter().collect();
    fixture.are_the_only_volumes(&kept).await
}

impl CsiFixture {
    /// Attaches the volume to a node, as kube-controller-manager does.
    async fn attach(&self, attachments: &Api<VolumeAttachment>, disk: &Disk) -> Result<()> {
        let driver = self.csi.name();
        let node = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "node-1"},
            "spec": {"drivers": [{"name": driver, "nodeID": "node-1"}]},
        });
        let cluster = &self.trash_space.space.cluster;
        let apply = ["apply", "--server-side", "-f", "-"];
        cluster
            .kubectl_with_stdin(&apply, &node.to_string())
            .await?;
        let attachment = serde_json::from_value(json!({
            "metadata": {"name": driver},
            "spec": {
                "attacher": driver, "nodeName": "node-1",
                "source": {"persistentVolumeName": disk.volume},
            },
        }))?;
        attachments
            .create(&PostParams::default(), &attachment)
            .await?;
        eventually("the volume is attached", async || {
            let status = attachments.get(driver).await?.status;
            anyhow::Ok(status.is_some_and(|status| status.attached))
        })
        .await
    }

    /// Fails if the driver deleted a volume that had been in the trash for less than this window,
    /// or if a volume without a recorded window of 2 s ever had the policy Delete.
    async fn none_was_deleted_early(&self, window: SignedDuration) -> Result<()> {
        let versions = self.trash_space.versions.all().await?;
        for call in self.csi.calls()? {
            if call.method != DELETE {
                continue;
            }
            let deleted_at = versions.iter().rev().find_map(|version| {
                let same = super::handle(version).is_ok_and(|handle| handle == call.volume);
                let record = record(version).ok().filter(|_| same)?;
                record["deletedAt"].as_str()?.parse::<Timestamp>().ok()
            });
            let deleted_at =
                deleted_at.with_context(|| format!("no deletedAt of {}", call.volume))?;
            ensure!(
                call.time >= deleted_at + window,
                "{call:?}, deletedAt {deleted_at}"
            );
        }
        for version in versions.iter().filter(|each| policy_of(each) == "Delete") {
            ensure!(
                record(version)?["windowSeconds"] == 2,
                "{}",
                version.name_any()
            );
        }
        Ok(())
    }
}
