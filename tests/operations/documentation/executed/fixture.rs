//! The objects that the commands name, and the environment in which the commands run.

use super::{super::programs::Programs, documented_command::DocumentedCommand};
use crate::support::{claim, define_kind, dry_run, repository};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use std::fs;
use tokio::process::Command;
use volume_warden_controlplane::{Cluster, Warden, eventually};

const OBJECTS: &str = include_str!("objects.yaml");
/// Kinds of other products that the commands name.
const KINDS: [(&str, &str); 4] = [
    ("clusters.postgresql.cnpg.io", "Cluster"),
    ("certificaterequests.cert-manager.io", "CertificateRequest"),
    ("certificates.cert-manager.io", "Certificate"),
    ("issuers.cert-manager.io", "Issuer"),
];

/// A cluster with the objects that the commands name, and the root of a storage backend.
pub struct Fixture<'a> {
    cluster: &'a Cluster,
    programs: Programs,
    probe: String,
    /// The volume of the claim that was deleted last.
    volume: Mutex<String>,
}

impl<'a> Fixture<'a> {
    pub async fn new(cluster: &'a Cluster, warden: &Warden) -> Result<Self> {
        for (name, kind) in KINDS {
            define_kind(cluster, name, kind).await?;
        }
        let examples = repository().join("examples").display().to_string();
        for files in ["-", &examples] {
            let apply = ["apply", "-f", files];
            eventually("the objects are created", async || {
                let applied = cluster.kubectl_with_stdin(&apply, OBJECTS).await;
                applied.map(drop)
            })
            .await?;
        }
        let programs = Programs::new(cluster).await?;
        let root = programs.directory().join("root");
        fs::create_dir(&root)?;
        fs::write(root.join(".volume-warden-root"), "")?;
        let probe = format!("127.0.0.1:{}", warden.probe_port());
        Ok(Self {
            cluster,
            programs,
            probe,
            volume: Mutex::default(),
        })
    }

    /// The script as a command, with the environment variables of the container in the manifests.
    pub fn shell(&self, script: &str) -> Command {
        let directory = self.programs.directory();
        let volume = self.volume.lock().clone();
        let mut command = self.programs.shell(script);
        // Volume Warden writes reports to the current directory.
        if script.starts_with("volume-warden ") {
            command.current_dir(directory);
        }
        command
            .env("ROOT", directory.join("root"))
            .env("VOLUME", volume)
            .env("VOLUME_WARDEN_STORAGE_BACKEND", "directory")
            .env("VOLUME_WARDEN_DIRECTORY_ROOT", directory.join("root"))
            .env("VOLUME_WARDEN_KUBECONFIG", self.cluster.kubeconfig())
            .env("VOLUME_WARDEN_PROBE_BIND_ADDRESS", &self.probe);
        command
    }

    /// Deletes the claim that the command restores or purges, and waits until its data can be
    /// restored.
    pub async fn prepare(&self, command: &DocumentedCommand) -> Result<()> {
        let Some(name) = command.deleted_claim() else {
            return Ok(());
        };
        let claims = Api::namespaced(self.cluster.client(), "shop");
        let volume = self.volume_with_trash(&claims, name).await?;
        claims.delete(name, &DeleteParams::default()).await?;
        let annotations = json!({"volume-warden.dev/undelete": volume});
        let restoring = json!({
            "metadata": {"name": "restoring", "annotations": annotations}, "spec": {},
        });
        let restoring = serde_json::from_value(restoring)?;
        eventually("the claim can be restored", async || {
            claims.create(&dry_run(), &restoring).await.map(drop)
        })
        .await?;
        *self.volume.lock() = volume;
        Ok(())
    }

    /// Creates the claim if it does not exist, and waits until the trash is enabled for its volume.
    /// Returns the name of the volume.
    async fn volume_with_trash(
        &self,
        claims: &Api<PersistentVolumeClaim>,
        name: &str,
    ) -> Result<String> {
        let changes = json!({"spec": {"storageClassName": "fast"}});
        if claims.get_opt(name).await?.is_none() {
            claims
                .create(&PostParams::default(), &claim(name, changes)?)
                .await?;
        }
        let volumes: Api<PersistentVolume> = Api::all(self.cluster.client());
        eventually(
            "the trash is enabled for the volume of the claim",
            async || {
                let claim = claims.get(name).await?;
                let volume = claim
                    .spec
                    .and_then(|spec| spec.volume_name)
                    .context("not Bound")?;
                let found = volumes.get(&volume).await?;
                let record = found.annotations().get("volume-warden.dev/trash");
                let record = record.context("no record")?;
                let uid = claim.metadata.uid.unwrap_or_default();
                ensure!(record.contains(&uid), "{record}");
                anyhow::Ok(Some(volume))
            },
        )
        .await
    }
}
