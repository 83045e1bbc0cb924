//! The storage backend `directory`, which has a directory for each namespace.

use super::{
    kubernetes::{create_namespace, is_gone},
    reads_and_metrics::{more_runs, waiting},
    support::{GC_EACH_SECOND, NO_GC, SYSTEM, component, interposer},
};
use crate::support::{BINARY, bare, repository, shared::Shared};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, api::DeleteParams};
use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};
use tempfile::TempDir;
use volume_warden_controlplane::{Rule, Warden, WardenBuilder, eventually};

const CONFIG_MAP: &str = "volume-warden-seen-namespaces";

/// A root directory, and a system namespace with the record of seen namespaces, which two Volume
/// Wardens must not share.
struct Root {
    cluster: Shared,
    name: String,
    directory: TempDir,
    namespaces: Api<Namespace>,
    config_maps: Api<ConfigMap>,
}

impl Root {
    async fn new(label: &str) -> Result<Self> {
        let (cluster, directory) = (bare().await?, tempfile::tempdir()?);
        fs::write(directory.path().join(".volume-warden-root"), "")?;
        let name = format!("nsdir-{label}");
        let namespaces = Api::all(cluster.client());
        create_namespace(&namespaces, &name).await?;
        // The shipped Role and RoleBinding, in this namespace.
        let manifest = repository().join("manifests/components/namespace-gc-seen/rbac.yaml");
        let manifest = fs::read_to_string(manifest)?;
        let namespace = format!("\n  namespace: {name}\n");
        let manifest = manifest.replace("\n  namespace: volume-warden\nr", &(namespace + "r"));
        ensure!(manifest.matches(&name).count() == 2, "{manifest}");
        let apply = ["apply", "-f", "-"];
        cluster.kubectl_with_stdin(&apply, &manifest).await?;
        Ok(Self {
            cluster: cluster.clone(),
            config_maps: Api::namespaced(cluster.client(), &name),
            name,
            directory,
            namespaces,
        })
    }

    fn full_name(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(self.full_name(name))
    }

    fn warden(&self) -> WardenBuilder<'_> {
        component(&self.cluster, &self.name, "first")
            .arg("--storage-backend=directory")
            .arg(format!(
                "--directory-root={}",
                self.directory.path().display()
            ))
            .arg(format!("--system-namespace={}", self.name))
            .arg(format!("--leader-elect-resource-namespace={SYSTEM}"))
            .arg("--gc-grace=0s")
    }

    /// Creates a namespace and its directory.
    async fn create(&self, name: &str) -> Result<()> {
        create_namespace(&self.namespaces, &self.full_name(name)).await?;
        fs::create_dir(self.path(name))?;
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let (name, parameters) = (self.full_name(name), DeleteParams::default());
        self.namespaces.delete(&name, &parameters).await?;
        is_gone(&self.namespaces, &name).await
    }

    async fn is_removed(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        eventually(&format!("{path:?} is deleted"), async || !path.exists()).await
    }

    /// Waits until the ConfigMap contains the names of these namespaces.
    async fn records(&self, names: &[&str]) -> Result<()> {
        eventually("the namespaces are recorded", async || {
            let map = self.config_maps.get(CONFIG_MAP).await?;
            let text = map.data.unwrap_or_default().remove("names");
            let text = text.unwrap_or_default();
            let is_recorded = |name: &&str| text.lines().any(|line| line == self.full_name(name));
            ensure!(names.iter().all(is_recorded), "{text}");
            Ok(())
        })
        .await
    }
}

/// The directory of an existing namespace is kept although it is empty. The directory of a deleted
/// namespace is kept until it is empty. A directory of a name that was
/// never a namespace of this cluster is kept.
#[tokio::test]
async fn the_empty_directory_of_a_deleted_namespace_is_deleted() -> Result<()> {
    let root = Root::new("life").await?;
    for name in ["alive", "empty", "full"] {
        root.create(name).await?;
    }
    let volume = root.path("full").join("volume");
    fs::create_dir(&volume)?;
    fs::create_dir(root.path("foreign"))?;
    let warden = root.warden().arg(GC_EACH_SECOND).start().await?;
    root.records(&["alive", "empty", "full"]).await?;
    tokio::try_join!(root.delete("empty"), root.delete("full"))?;
    root.is_removed("empty").await?;
    waiting(&warden, "NotEmpty", 1).await?;
    more_runs(&warden, "Done", 2).await?;
    ensure!(volume.exists() && root.path("alive").exists());
    fs::remove_dir(&volume)?;
    root.is_removed("full").await?;
    more_runs(&warden, "Done", 2).await?;
    ensure!(root.path("alive").exists() && root.path("foreign").exists());
    ensure!(root.directory.path().join(".volume-warden-root").exists());
    Ok(())
}

/// A namespace is deleted while no Volume Warden runs. A ConfigMap records that this cluster once
/// had the namespace; while the ConfigMap cannot be read, no directory is deleted.
#[tokio::test]
async fn the_directory_of_a_recorded_namespace_is_deleted() -> Result<()> {
    let root = Root::new("seen").await?;
    root.create("shop").await?;
    let warden = root.warden().arg(NO_GC).start().await?;
    root.records(&["shop"]).await?;
    ensure!(warden.stop().await?.success());
    root.delete("shop").await?;
    fs::create_dir(root.path("foreign"))?;
    let interposer = interposer(&root.cluster).await?;
    let refused = Rule::on("GET").path_contains(format!("/configmaps/{CONFIG_MAP}"));
    let refused = interposer.add(refused.respond(500, "InternalError", "not now"));
    let warden = root
        .warden()
        .arg(GC_EACH_SECOND)
        .kubeconfig(interposer.kubeconfig());
    let warden = warden.start().await?;
    more_runs(&warden, "SeenFailed", 2).await?;
    ensure!(root.path("shop").exists());
    drop(refused);
    root.is_removed("shop").await?;
    more_runs(&warden, "Done", 1).await?;
    ensure!(root.path("foreign").exists());
    Ok(())
}

/// A root that is not mounted looks empty, but it lacks the file `.volume-warden-root`.
#[tokio::test]
async fn a_root_without_its_marker_file_is_refused() -> Result<()> {
    let root = Root::new("unmarked").await?;
    fs::remove_file(root.directory.path().join(".volume-warden-root"))?;
    let started: Result<Warden> = root.warden().start().await;
    let reported = format!(
        "{:#}",
        started.err().map_or_else(String::new, |e| format!("{e:#}"))
    );
    ensure!(reported.contains(".volume-warden-root"), "{reported}");
    let output = Command::new(BINARY)
        .args(["gc", "--once", "--storage-backend=directory"])
        .arg(format!(
            "--directory-root={}",
            root.directory.path().display()
        ))
        .arg("--kubeconfig")
        .arg(root.cluster.kubeconfig())
        .stdout(Stdio::null())
        .output()?;
    let reported = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{reported}");
    ensure!(reported.contains(".volume-warden-root"), "{reported}");
    Ok(())
}
