//! A StorageOS server for each scenario, and namespaces that exist in Kubernetes and in this
//! server.
//!
//! Each scenario has its own storage, so the other namespaces of the shared cluster do not matter.

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

/// The namespace of the Lease and of the Events about it.
pub const SYSTEM: &str = "volume-warden";
/// Disables collections.
pub const NO_GC: &str = "--namespace-delete-gc-interval=0";
/// Runs a collection every second.
pub const GC_EACH_SECOND: &str = "--namespace-delete-gc-interval=1s";

/// A storage with its credentials, and a cluster.
pub struct Fixture {
    pub cluster: Shared,
    /// The name of the Lease, and the prefix of the names of the namespaces.
    pub name: String,
    pub storage: StorageOs,
    pub namespaces: Api<Namespace>,
    secrets: TempDir,
    _exclusive: Option<MutexGuard<'static, ()>>,
}

impl Fixture {
    pub async fn new(label: &str) -> Result<Self> {
        Self::on(bare().await?, None, label)
    }

    /// On a cluster that no other test uses meanwhile, so that only this scenario causes LISTs of
    /// the storage.
    pub async fn exclusive(label: &str) -> Result<Self> {
        let (cluster, exclusive) = quiet().await?;
        Self::on(cluster, Some(exclusive), label)
    }

    fn on(
        cluster: Shared,
        exclusive: Option<MutexGuard<'static, ()>>,
        label: &str,
    ) -> Result<Self> {
        let fixture = Self {
            cluster: cluster.clone(),
            name: format!("nsgc-{label}"),
            storage: StorageOs::start()?,
            namespaces: Api::all(cluster.client()),
            secrets: tempfile::tempdir()?,
            _exclusive: exclusive,
        };
        fixture.write_secrets(PASSWORD)?;
        Ok(fixture)
    }

    /// Writes the files of the Secret, with white space around the values as editors leave it.
    pub fn write_secrets(&self, password: &str) -> Result<()> {
        let path = self.secrets.path();
        fs::write(path.join("username"), format!("{USER}\n"))?;
        fs::write(path.join("password"), format!(" {password}\n"))?;
        Ok(())
    }

    /// The directory with the files of the Secret.
    pub fn secrets(&self) -> &Path {
        self.secrets.path()
    }

    /// The name of a namespace, with the prefix of this scenario.
    pub fn full_name(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Creates a namespace in Kubernetes.
    pub async fn create(&self, name: &str) -> Result<()> {
        create_namespace(&self.namespaces, &self.full_name(name)).await
    }

    /// Creates a namespace in the storage, and returns its id.
    pub fn create_in_storage(&self, name: &str) -> String {
        self.storage.create(&self.full_name(name))
    }

    pub async fn create_in_both(&self, name: &str) -> Result<String> {
        self.create(name).await?;
        Ok(self.create_in_storage(name))
    }

    pub async fn patch(&self, name: &str, patch: Value) -> Result<()> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.namespaces
            .patch(&self.full_name(name), &parameters, &patch)
            .await?;
        Ok(())
    }

    pub async fn delete(&self, name: &str) -> Result<()> {
        let name = self.full_name(name);
        self.namespaces
            .delete(&name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Deletes the namespace from Kubernetes, and waits until it no longer exists there.
    pub async fn delete_and_wait(&self, name: &str) -> Result<()> {
        self.delete(name).await?;
        self.is_gone(name).await
    }

    pub async fn is_gone(&self, name: &str) -> Result<()> {
        is_gone(&self.namespaces, &self.full_name(name)).await
    }

    pub fn is_in_storage(&self, name: &str) -> bool {
        self.storage.names().contains(&self.full_name(name))
    }

    /// Waits until the namespace is deleted from the storage.
    pub async fn is_removed(&self, name: &str) -> Result<()> {
        let what = format!(
            "namespace {} is deleted from the storage",
            self.full_name(name)
        );
        eventually(&what, async || !self.is_in_storage(name)).await
    }

    /// Number of requests to the storage to delete the namespace with this id.
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

    /// The first replica. It runs a collection as soon as it leads.
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

    /// Holds all requests for Leases, so that no replica leads and no collection begins. A rule for
    /// LISTs that is added once Volume Warden watches then applies only to collections.
    pub fn prevent_leading(&self, interposer: &Interposer) -> RuleHandle {
        interposer.add(Rule::on("*").path_contains("/leases").hold())
    }

    /// Starts an interposer between Volume Warden and the API server.
    pub async fn interposer(&self) -> Result<Interposer> {
        interposer(&self.cluster).await
    }

    pub async fn leads(&self, id: &str) -> Result<()> {
        leads(&self.cluster, &self.name, id).await
    }

    pub async fn holder(&self) -> Result<String> {
        lease_holder(&self.cluster, &self.name).await
    }

    /// Waits until Volume Warden has published this number of Events with this reason about the
    /// namespace.
    pub async fn reported(&self, name: &str, reason: &str, times: usize) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.cluster.client(), SYSTEM);
        let about = format!("involvedObject.name={},reason={reason}", self.name);
        let about = ListParams::default().fields(&about);
        let mention = format!("namespace {} ", self.full_name(name));
        eventually(&format!("{reason} is published about {name}"), async || {
            let events = events.list(&about).await?.items;
            let is_about = |event: &&Event| {
                let message = event.message.as_deref();
                message.is_some_and(|message| message.contains(&mention))
            };
            ensure!(
                events.iter().filter(is_about).count() == times,
                "{events:?}"
            );
            Ok(())
        })
        .await
    }

    /// Waits until Volume Warden has processed all earlier events of the watch: a namespace that is
    /// deleted after them is deleted from the storage.
    pub async fn settled(&self) -> Result<()> {
        self.create_in_both("canary").await?;
        self.delete_and_wait("canary").await?;
        self.is_removed("canary").await
    }
}

/// A Volume Warden with only this component, and with a Lease of its own.
pub fn component<'a>(cluster: &'a Cluster, lease: &str, id: &str) -> WardenBuilder<'a> {
    Warden::builder(cluster, BINARY)
        .name(format!("{lease}-{id}"))
        .arg("--components=namespace-gc")
        .arg(format!("--leader-elect-resource-name={lease}"))
        .arg(format!("--leader-elect-identity={id}"))
        .arg("--namespace-delete-gc-delay=0")
        .arg("--gc-confirm-after=0")
}

/// Waits until the replica with this identity holds the Lease.
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
