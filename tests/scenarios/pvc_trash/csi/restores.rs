//! Claims are deleted in four ways, and restored: each gets the same volume with the same file.

use super::{CsiFixture, Disk, handle, names};
use crate::{
    pvc_trash::support::WINDOW,
    support::{
        create_namespace,
        sets::{DELETE_RETAIN, Policy, RETAIN_DELETE, set},
    },
};
use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs};
use volume_warden_controlplane::eventually;

/// How many claims each of the four tests deletes and restores: 100 in all.
const COUNT: usize = 25;

async fn fixture(label: &str) -> Result<CsiFixture> {
    CsiFixture::new(label, json!({WINDOW: "1h"})).await
}

#[tokio::test]
async fn claims_are_deleted() -> Result<()> {
    let fixture = fixture("csi-alone").await?;
    let disks = fixture.enabled(&names("data", COUNT)).await?;
    fixture.delete_claims(&disks).await?;
    fixture.are_in_trash(&disks).await?;
    fixture.undelete(&disks).await
}

/// An administrator restores the claims into a namespace of the same name.
#[tokio::test]
async fn a_namespace_is_deleted() -> Result<()> {
    let fixture = fixture("csi-namespace").await?;
    let (name, client) = (
        &fixture.trash_space.space.name,
        fixture.trash_space.space.cluster.client(),
    );
    let disks = fixture.enabled(&names("data", COUNT)).await?;
    fixture.trash_space.space.delete_namespace().await?;
    fixture.are_in_trash(&disks).await?;
    create_namespace(&client, name).await?;
    let restored = disks
        .iter()
        .map(async |disk| fixture.restore_without_cli(disk).await);
    try_join_all(restored).await?;
    fixture.are_restored(&disks).await
}

#[tokio::test]
async fn a_stateful_set_is_deleted() -> Result<()> {
    let fixture = fixture("csi-set").await?;
    let disks = fixture.run_set(DELETE_RETAIN).await?;
    let sets = fixture.sets();
    sets.delete("web", &DeleteParams::default()).await?;
    fixture.are_in_trash(&disks).await?;
    fixture.undelete(&disks).await
}

#[tokio::test]
async fn a_stateful_set_is_scaled_down() -> Result<()> {
    let fixture = fixture("csi-scale").await?;
    let disks = fixture.run_set(RETAIN_DELETE).await?;
    fixture.scale(0).await?;
    fixture.are_in_trash(&disks).await?;
    fixture.undelete(&disks).await?;
    // The set uses the restored claims, and creates none.
    fixture.scale(disks.len()).await?;
    fixture.set_is_ready(disks.len()).await?;
    fixture.are_restored(&disks).await
}

impl CsiFixture {
    /// Restores the deleted claims under their names.
    async fn undelete(&self, disks: &[Disk]) -> Result<()> {
        let created = disks
            .iter()
            .map(async |disk| self.trash_space.undelete(&disk.claim, &disk.claim).await);
        for created in try_join_all(created).await? {
            created?;
        }
        self.are_restored(disks).await
    }

    /// Waits until the claims are Bound to their volumes again, and checks the files. Fails if the
    /// driver received DeleteVolume, or if the data of a volume was at risk.
    async fn are_restored(&self, disks: &[Disk]) -> Result<()> {
        for disk in disks {
            let volume = self.trash_space.volume_of(&disk.claim).await?;
            assert_eq!(handle(&volume)?, disk.handle);
            assert_eq!(fs::read_to_string(self.file(&disk.handle))?, disk.claim);
            self.trash_space.is_enabled(&disk.volume).await?;
        }
        let all: Vec<_> = disks.iter().collect();
        self.are_the_only_volumes(&all).await?;
        assert_eq!(self.deletions()?, BTreeSet::new());
        self.trash_space.nothing_was_at_risk().await
    }

    /// Restores a claim without `volume-warden undelete`: sets the claimRef of the volume, and
    /// creates a claim that names the volume.
    async fn restore_without_cli(&self, disk: &Disk) -> Result<()> {
        let namespace = &self.trash_space.space.name;
        let claim = json!({
            "namespace": namespace, "name": disk.claim, "uid": null, "resourceVersion": null,
        });
        let patch = Patch::Merge(json!({"spec": {"claimRef": claim}}));
        let volumes = &self.trash_space.space.volumes;
        let parameters = PatchParams::default();
        volumes.patch(&disk.volume, &parameters, &patch).await?;
        let changes = json!({
            "spec": {"volumeName": disk.volume, "storageClassName": namespace},
        });
        let claim = crate::support::claim(&disk.claim, changes)?;
        let claims = &self.trash_space.space.claims;
        claims.create(&PostParams::default(), &claim).await?;
        Ok(())
    }

    /// Creates a StatefulSet and waits until its pods are ready. Writes a file on each of its
    /// volumes, and waits until the trash is enabled for them.
    async fn run_set(&self, policy: Policy) -> Result<Vec<Disk>> {
        let templates = json!([{
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": self.trash_space.space.name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }]);
        let changes = json!({"spec": {"volumeClaimTemplates": templates}});
        let replicas = i32::try_from(COUNT)?;
        let set = set("web", replicas, policy, changes)?;
        self.sets().create(&PostParams::default(), &set).await?;
        self.set_is_ready(COUNT).await?;
        let names = names("data-web", COUNT);
        let disks = names.iter().map(async |name| {
            let volume = self.trash_space.volume_of(name).await?;
            let disk = self.write_file(&volume)?;
            self.trash_space.is_enabled(&disk.volume).await?;
            anyhow::Ok(disk)
        });
        try_join_all(disks).await
    }

    fn sets(&self) -> Api<StatefulSet> {
        let space = &self.trash_space.space;
        Api::namespaced(space.cluster.client(), &space.name)
    }

    async fn scale(&self, replicas: usize) -> Result<()> {
        let patch: Patch<Value> = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let (sets, parameters) = (self.sets(), PatchParams::default());
        sets.patch("web", &parameters, &patch).await?;
        Ok(())
    }

    async fn set_is_ready(&self, replicas: usize) -> Result<()> {
        eventually("the pods of the set are ready", async || {
            let status = self.sets().get("web").await?.status.unwrap_or_default();
            let ready = status.ready_replicas.unwrap_or_default();
            ensure!(usize::try_from(ready)? == replicas, "{status:?}");
            anyhow::Ok(())
        })
        .await
    }
}
