//! Storage with a directory for each namespace.

use super::{
    asking::{more_runs, waiting},
    kubernetes::{create_namespace, is_gone},
    support::{NO_GC, OFTEN, SYSTEM, component, interposer},
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

/// A root, and a system namespace where it is remembered which namespaces there were: two wardens
/// must not share that.
struct Root {
    cluster: Shared,
    name: String,
    root: TempDir,
    namespaces: Api<Namespace>,
    memory: Api<ConfigMap>,
}

impl Root {
    async fn new(label: &str) -> Result<Self> {
        let (cluster, root) = (bare().await?, tempfile::tempdir()?);
        fs::write(root.path().join(".volume-warden-root"), "")?;
        let name = format!("nsdir-{label}");
        let namespaces = Api::all(cluster.client());
        create_namespace(&namespaces, &name).await?;
        // As shipped, but for where it is granted.
        let rights = repository().join("manifests/components/namespace-gc-seen/rbac.yaml");
        let rights = fs::read_to_string(rights)?;
        let own = format!("\n  namespace: {name}\n");
        let granted = rights.replace("\n  namespace: volume-warden\nr", &(own + "r"));
        ensure!(granted.matches(&name).count() == 2, "{granted}");
        let apply = ["apply", "-f", "-"];
        cluster.kubectl_with_stdin(&apply, &granted).await?;
        Ok(Self {
            cluster: cluster.clone(),
            memory: Api::namespaced(cluster.client(), &name),
            name,
            root,
            namespaces,
        })
    }

    fn of(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(self.of(name))
    }

    fn warden(&self) -> WardenBuilder<'_> {
        component(&self.cluster, &self.name, "first")
            .arg("--storage-backend=directory")
            .arg(format!("--directory-root={}", self.root.path().display()))
            .arg(format!("--system-namespace={}", self.name))
            .arg(format!("--leader-elect-resource-namespace={SYSTEM}"))
            .arg("--gc-grace=0s")
    }

    /// Makes a namespace and its directory.
    async fn create(&self, name: &str) -> Result<()> {
        create_namespace(&self.namespaces, &self.of(name)).await?;
        fs::create_dir(self.path(name))?;
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let (name, how) = (self.of(name), DeleteParams::default());
        self.namespaces.delete(&name, &how).await?;
        is_gone(&self.namespaces, &name).await
    }

    async fn is_removed(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        eventually(&format!("{path:?} is gone"), async || !path.exists()).await
    }

    /// The names are recorded.
    async fn knows(&self, names: &[&str]) -> Result<()> {
        eventually("the namespaces are recorded", async || {
            let map = self.memory.get(CONFIG_MAP).await?;
            let text = map.data.unwrap_or_default().remove("names");
            let text = text.unwrap_or_default();
            let knows = |name: &&str| text.lines().any(|line| line == self.of(name));
            ensure!(names.iter().all(knows), "{text}");
            Ok(())
        })
        .await
    }
}

/// A namespace that is alive keeps its directory, however empty; one that is not, as long as there
/// is something in it; and a directory that was never of this cluster is none of its business.
#[tokio::test]
async fn a_directory_goes_when_its_namespace_has_and_it_is_empty() -> Result<()> {
    let root = Root::new("life").await?;
    for name in ["alive", "empty", "full"] {
        root.create(name).await?;
    }
    let volume = root.path("full").join("volume");
    fs::create_dir(&volume)?;
    fs::create_dir(root.path("foreign"))?;
    let warden = root.warden().arg(OFTEN).start().await?;
    root.knows(&["alive", "empty", "full"]).await?;
    tokio::try_join!(root.delete("empty"), root.delete("full"))?;
    root.is_removed("empty").await?;
    waiting(&warden, "NotEmpty", 1).await?;
    more_runs(&warden, "Done", 2).await?;
    ensure!(volume.exists() && root.path("alive").exists());
    fs::remove_dir(&volume)?;
    root.is_removed("full").await?;
    more_runs(&warden, "Done", 2).await?;
    ensure!(root.path("alive").exists() && root.path("foreign").exists());
    ensure!(root.root.path().join(".volume-warden-root").exists());
    Ok(())
}

/// Its namespace was deleted while no Volume Warden ran. That this cluster once had it is in a
/// ConfigMap, and while that cannot be read nothing goes.
#[tokio::test]
async fn what_this_cluster_once_had_goes_if_that_is_known() -> Result<()> {
    let root = Root::new("seen").await?;
    root.create("shop").await?;
    let warden = root.warden().arg(NO_GC).start().await?;
    root.knows(&["shop"]).await?;
    ensure!(warden.stop().await?.success());
    root.delete("shop").await?;
    fs::create_dir(root.path("foreign"))?;
    let interposer = interposer(&root.cluster).await?;
    let refused = Rule::on("GET").path_contains(format!("/configmaps/{CONFIG_MAP}"));
    let refused = interposer.add(refused.respond(500, "InternalError", "not now"));
    let warden = root.warden().arg(OFTEN).kubeconfig(interposer.kubeconfig());
    let warden = warden.start().await?;
    more_runs(&warden, "SeenFailed", 2).await?;
    ensure!(root.path("shop").exists());
    drop(refused);
    root.is_removed("shop").await?;
    more_runs(&warden, "Done", 1).await?;
    ensure!(root.path("foreign").exists());
    Ok(())
}

/// What is not mounted looks empty, and is distinguished by its mark.
#[tokio::test]
async fn a_root_without_its_mark_is_refused() -> Result<()> {
    let root = Root::new("unmarked").await?;
    fs::remove_file(root.root.path().join(".volume-warden-root"))?;
    let started: Result<Warden> = root.warden().start().await;
    let reported = format!(
        "{:#}",
        started.err().map_or_else(String::new, |e| format!("{e:#}"))
    );
    ensure!(reported.contains(".volume-warden-root"), "{reported}");
    let command = Command::new(BINARY)
        .args(["gc", "--once", "--storage-backend=directory"])
        .arg(format!("--directory-root={}", root.root.path().display()))
        .arg("--kubeconfig")
        .arg(root.cluster.kubeconfig())
        .stdout(Stdio::null())
        .output()?;
    let reported = String::from_utf8_lossy(&command.stderr);
    ensure!(command.status.code() == Some(1), "{reported}");
    ensure!(reported.contains(".volume-warden-root"), "{reported}");
    Ok(())
}
