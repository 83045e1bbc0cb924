//! Which volumes the driver deletes, and when.

use super::{Disk, Stand, names};
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
    let stand = Stand::new("csi-due", json!({WINDOW: "1h"})).await?;
    let short = json!({"metadata": {"annotations": {WINDOW: "2s"}}});
    let due = stand.bound(&names("due", 5), &short).await?;
    for disk in &due {
        eventually("the window is recorded", async || {
            let volume = stand.shelf.is_enabled(&disk.volume).await?;
            ensure!(record(&volume)?["windowSeconds"] == 2, "{volume:?}");
            Ok(())
        })
        .await?;
    }
    let kept = stand.enabled(&names("kept", 5)).await?;
    stand.delete_claims(&due).await?;
    stand.delete_claims(&kept).await?;
    let all: Vec<_> = kept.iter().collect();
    stand.are_all(&all).await?;
    stand.are_in_trash(&kept).await?;
    let handles: BTreeSet<_> = due.iter().map(|disk| disk.handle.clone()).collect();
    assert_eq!(stand.deletions()?, handles);
    stand
        .none_was_deleted_early(SignedDuration::from_secs(2))
        .await?;
    stand.purge(&kept).await?;
    stand.are_all(&[]).await
}

/// external-attacher detaches the volume first.
#[tokio::test]
async fn an_attached_volume_is_deleted_after_it_was_detached() -> Result<()> {
    let stand = Stand::new("csi-attached", json!({WINDOW: "1h"})).await?;
    let disks = stand.enabled(&names("data", 2)).await?;
    let (attached, canary) = disks.split_at(1);
    let attachments: Api<VolumeAttachment> = Api::all(stand.shelf.space.cluster.client());
    stand.attach(&attachments, &attached[0]).await?;
    stand.delete_claims(&disks).await?;
    stand.are_in_trash(&disks).await?;
    stand.purge(attached).await?;
    // It is purged after Volume Warden has looked at the attached one.
    stand.purge(canary).await?;
    stand.are_all(&[&attached[0]]).await?;
    let volume = stand.shelf.is_in_trash(&attached[0].volume).await?;
    ensure!(policy_of(&volume) == "Retain");
    attachments
        .delete("csi-attached", &DeleteParams::default())
        .await?;
    stand.are_all(&[]).await?;
    let calls = stand.csi.calls()?;
    let calls = calls
        .iter()
        .filter(|call| call.volume == attached[0].handle);
    let mut methods: Vec<_> = calls.map(|call| call.method.as_str()).collect();
    // external-provisioner may call it twice.
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

/// Also if its object is deleted meanwhile, and if admission had missed its creation.
#[tokio::test]
async fn a_purge_survives_a_failure_of_the_storage() -> Result<()> {
    let stand = Stand::new("csi-broken", json!({})).await?;
    let mut disks = stand.bound(&names("late", 2), &json!({})).await?;
    stand.shelf.set_window(Some("1h")).await?;
    for disk in &disks {
        stand.shelf.is_enabled(&disk.volume).await?;
    }
    disks.extend(stand.enabled(&names("data", 2)).await?);
    stand.delete_claims(&disks).await?;
    stand.are_in_trash(&disks).await?;
    stand.csi.fail(Some(DELETE))?;
    stand.purge(&disks).await?;
    stand.are_final(&disks).await?;
    let handles: BTreeSet<_> = disks.iter().map(|disk| disk.handle.clone()).collect();
    eventually("all deletions have failed", async || {
        let calls = stand.csi.calls()?.into_iter();
        let failed: BTreeSet<_> = calls
            .filter(|call| call.method == DELETE && call.failed)
            .map(|call| call.volume)
            .collect();
        ensure!(failed == handles, "{failed:?}");
        anyhow::Ok(())
    })
    .await?;
    for disk in disks.iter().step_by(2) {
        stand.delete_object(disk).await?;
    }
    assert_eq!(stand.csi.volumes()?, handles);
    stand.csi.fail(None)?;
    stand.are_all(&[]).await
}

#[tokio::test]
async fn a_purge_survives_an_outage_of_the_provisioner() -> Result<()> {
    let mut stand = Stand::new("csi-down", json!({WINDOW: "1h"})).await?;
    let disks = stand.enabled(&names("data", 4)).await?;
    let (purged, kept) = disks.split_at(2);
    stand.delete_claims(purged).await?;
    stand.are_in_trash(purged).await?;
    stand.csi.stop_provisioner();
    stand.purge(purged).await?;
    stand.are_final(purged).await?;
    stand.delete_object(&purged[0]).await?;
    stand.delete_claims(kept).await?;
    stand.are_in_trash(kept).await?;
    assert_eq!(stand.deletions()?, BTreeSet::new());
    stand.csi.start_provisioner(&stand.shelf.space.cluster)?;
    let kept: Vec<_> = kept.iter().collect();
    stand.are_all(&kept).await
}

impl Stand {
    /// Attaches the volume to a node, as kube-controller-manager does.
    async fn attach(&self, attachments: &Api<VolumeAttachment>, disk: &Disk) -> Result<()> {
        let driver = self.csi.name();
        let node = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "node-1"},
            "spec": {"drivers": [{"name": driver, "nodeID": "node-1"}]},
        });
        let cluster = &self.shelf.space.cluster;
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

    /// Each deleted volume had been in the trash for this window, and no other one has ever had the
    /// policy Delete.
    async fn none_was_deleted_early(&self, window: SignedDuration) -> Result<()> {
        let versions = self.shelf.versions.all().await?;
        for call in self.csi.calls()? {
            if call.method != DELETE {
                continue;
            }
            let deleted = versions.iter().rev().find_map(|version| {
                let same = super::handle(version).is_ok_and(|handle| handle == call.volume);
                let record = record(version).ok().filter(|_| same)?;
                record["deletedAt"].as_str()?.parse::<Timestamp>().ok()
            });
            let deleted = deleted.with_context(|| format!("no deletion of {}", call.volume))?;
            ensure!(call.time >= deleted + window, "{call:?} after {deleted}");
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
