//! A StorageOS for each scenario, and namespaces that are in both.
//!
//! The storage is a scenario's own, so it does not matter which other namespaces the shared cluster has.

use super::kubernetes::{create_namespace, is_gone};
use crate::support::{BINARY, bare, lease_holder, quiet, shared::Shared};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::Value;
use std::{fs, path::Path};
use tempfile::TempDir;
use tokio::sync::MutexGuard;
use volume_warden_controlplane::{
    Cluster, Interposer, Rule, RuleHandle, Warden, WardenBuilder, eventually,
};
use volume_warden_storageos::{Endpoint, PASSWORD, StorageOs, USER};

/// Where the Lease is, and the Events about it.
pub const SYSTEM: &str = "volume-warden";
/// No collection comes on its own.
pub const NO_GC: &str = "--namespace-delete-gc-interval=0";
pub const OFTEN: &str = "--namespace-delete-gc-interval=1s";

/// See the module.
pub struct Scene {
    pub cluster: Shared,
    /// Of the Lease, and what the names of its namespaces begin with.
    pub name: String,
    pub storage: StorageOs,
    pub namespaces: Api<Namespace>,
    secrets: TempDir,
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Scene {
    pub async fn new(label: &str) -> Result<Self> {
        Self::on(bare().await?, None, label)
    }

    /// Where each list of the storage is for this scenario.
    pub async fn quiet(label: &str) -> Result<Self> {
        let (cluster, alone) = quiet().await?;
        Self::on(cluster, Some(alone), label)
    }

    fn on(cluster: Shared, alone: Option<MutexGuard<'static, ()>>, label: &str) -> Result<Self> {
        let scene = Self {
            cluster: cluster.clone(),
            name: format!("nsgc-{label}"),
            storage: StorageOs::start()?,
            namespaces: Api::all(cluster.client()),
            secrets: tempfile::tempdir()?,
            _alone: alone,
        };
        scene.write_secrets(PASSWORD)?;
        Ok(scene)
    }

    /// The files of the Secret, with white space around as editors leave it.
    pub fn write_secrets(&self, password: &str) -> Result<()> {
        let path = self.secrets.path();
        fs::write(path.join("username"), format!("{USER}\n"))?;
        fs::write(path.join("password"), format!(" {password}\n"))?;
        Ok(())
    }

    /// Where the files of the Secret are.
    pub fn secrets(&self) -> &Path {
        self.secrets.path()
    }

    /// The whole name.
    pub fn of(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Makes one in Kubernetes.
    pub async fn create(&self, name: &str) -> Result<()> {
        create_namespace(&self.namespaces, &self.of(name)).await
    }

    /// Makes one in the storage, and returns its id.
    pub fn store(&self, name: &str) -> String {
        self.storage.create(&self.of(name))
    }

    pub async fn create_in_both(&self, name: &str) -> Result<String> {
        self.create(name).await?;
        Ok(self.store(name))
    }

    pub async fn patch(&self, name: &str, patch: Value) -> Result<()> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.namespaces
            .patch(&self.of(name), &parameters, &patch)
            .await?;
        Ok(())
    }

    pub async fn delete(&self, name: &str) -> Result<()> {
        let name = self.of(name);
        self.namespaces
            .delete(&name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Deletes it, and returns when Kubernetes has it no longer.
    pub async fn delete_wholly(&self, name: &str) -> Result<()> {
        self.delete(name).await?;
        self.is_gone(name).await
    }

    pub async fn is_gone(&self, name: &str) -> Result<()> {
        is_gone(&self.namespaces, &self.of(name)).await
    }

    pub fn is_stored(&self, name: &str) -> bool {
        self.storage.names().contains(&self.of(name))
    }

    pub async fn is_removed(&self, name: &str) -> Result<()> {
        let what = format!("namespace {} is gone from the storage", self.of(name));
        eventually(&what, async || !self.is_stored(name)).await
    }

    /// How often this namespace was to be deleted in the storage, by id.
    pub fn deletions_of(&self, id: &str) -> usize {
        let path = format!("/v2/namespaces/{id}?");
        let requests = self.storage.requests();
        let deletions = requests
            .iter()
            .filter(|each| each.endpoint == Endpoint::Delete);
        deletions
            .filter(|each| each.target.starts_with(&path))
            .count()
    }

    pub fn deletions(&self) -> usize {
        self.storage.calls(Endpoint::Delete)
    }

    pub fn lists(&self) -> usize {
        self.storage.calls(Endpoint::List)
    }

    /// The first replica; it collects at once when it leads.
    pub fn warden(&self) -> WardenBuilder<'_> {
        self.replica("first")
    }

    pub fn replica(&self, id: &str) -> WardenBuilder<'_> {
        let secrets = self.secrets.path().display();
        let storage = [
            "--storage-backend=storageos".to_owned(),
            format!("--storageos-endpoint={}", self.storage.endpoint()),
            format!("--storageos-secret-path={secrets}"),
            "--insecure-http".to_owned(),
        ];
        let warden = component(&self.cluster, &self.name, id);
        storage.into_iter().fold(warden, WardenBuilder::arg)
    }

    /// Arguments of `gc` for this storage.
    pub fn gc_arguments(&self) -> Vec<String> {
        vec![
            "--storage-backend=storageos".to_owned(),
            format!("--storageos-endpoint={}", self.storage.endpoint()),
            format!("--storageos-secret-path={}", self.secrets.path().display()),
            "--insecure-http".to_owned(),
            "--gc-confirm-after=0s".to_owned(),
        ]
    }

    /// Keeps its Volume Warden from leading, and so from collecting: rules that come after its own
    /// LIST are for a collection's.
    pub fn not_leading(&self, interposer: &Interposer) -> RuleHandle {
        interposer.add(Rule::on("*").path_contains("/leases").hold())
    }

    /// What lies between its Volume Warden and the API server.
    pub async fn interposer(&self) -> Result<Interposer> {
        interposer(&self.cluster).await
    }

    pub async fn leads(&self, id: &str) -> Result<()> {
        leads(&self.cluster, &self.name, id).await
    }

    pub async fn holder(&self) -> Result<String> {
        lease_holder(&self.cluster, &self.name).await
    }

    /// So many Events were published about the namespace with this reason.
    pub async fn reported(&self, name: &str, reason: &str, times: usize) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.cluster.client(), SYSTEM);
        let about = format!("involvedObject.name={},reason={reason}", self.name);
        let about = ListParams::default().fields(&about);
        let word = format!("namespace {} ", self.of(name));
        eventually(&format!("{reason} is published about {name}"), async || {
            let events = events.list(&about).await?.items;
            let says = |event: &&Event| event.message.as_deref().is_some_and(|m| m.contains(&word));
            ensure!(events.iter().filter(says).count() == times, "{events:?}");
            Ok(())
        })
        .await
    }

    /// Volume Warden has worked off whatever the watch had reported before: a namespace that went
    /// afterwards is gone from the storage.
    pub async fn settled(&self) -> Result<()> {
        self.create_in_both("canary").await?;
        self.delete_wholly("canary").await?;
        self.is_removed("canary").await
    }
}

/// A Volume Warden with this component only, with a Lease of its own.
pub fn component<'a>(cluster: &'a Cluster, lease: &str, id: &str) -> WardenBuilder<'a> {
    Warden::builder(cluster, BINARY)
        .name(format!("{lease}-{id}"))
        .arg("--components=namespace-gc")
        .arg(format!("--leader-elect-resource-name={lease}"))
        .arg(format!("--leader-elect-identity={id}"))
        .arg("--namespace-delete-gc-delay=0")
        .arg("--gc-confirm-after=0")
}

/// The one of that id has that Lease.
pub async fn leads(cluster: &Cluster, lease: &str, id: &str) -> Result<()> {
    eventually(&format!("{id} leads"), async || {
        let holder = lease_holder(cluster, lease).await?;
        ensure!(holder == id, "{holder:?}");
        Ok(())
    })
    .await
}

pub async fn interposer(cluster: &Cluster) -> Result<Interposer> {
    Interposer::for_service_account(cluster, SYSTEM, SYSTEM).await
}
