//! Volume Warden built, installed and running.

use crate::narrator::{Narrator, step, title};
use anyhow::{Context, Result, ensure};
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use volume_warden_controlplane::{Cluster, Warden};

/// How the variables begin by which `cargo run` describes the package of the demo.
const PACKAGE: [&str; 3] = ["CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"];

/// Builds the binary, because cargo builds none for an example, and tells where it is.
///
/// The example is named along with it so that cargo resolves the same features and has the dependencies already.
pub fn build() -> Result<PathBuf> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--locked"])
        .args(["--bin", "volume-warden", "--example", "demo"]);
    // The build script of ring runs again when one of these changes, and most crates here are built after ring.
    let of_package = |name: &OsString| {
        PACKAGE
            .iter()
            .any(|&prefix| name.to_string_lossy().starts_with(prefix))
    };
    for name in env::vars_os().map(|(name, _)| name).filter(of_package) {
        cargo.env_remove(name);
    }
    let status = cargo.status().context("starting cargo")?;
    ensure!(status.success(), "building volume-warden failed ({status})");
    // The example is target/debug/examples/demo.
    let demo = env::current_exe()?;
    let directory = demo
        .ancestors()
        .nth(2)
        .context("an executable without a directory")?;
    Ok(directory.join("volume-warden"))
}

/// Makes the storage of the fifth story, which goes with the cluster, and tells where it is.
pub fn storage(cluster: &Cluster) -> Result<String> {
    let root = cluster.dir().join("storage");
    fs::create_dir(&root)?;
    fs::write(root.join(".volume-warden-root"), "")?;
    Ok(root.display().to_string())
}

/// Installs what users install, and starts Volume Warden with the service account made for it, and with that storage.
pub async fn install(
    narrator: &Narrator,
    cluster: &Cluster,
    (binary, storage): (&Path, &str),
) -> Result<Warden> {
    title("Installing Volume Warden")?;
    step(
        "The manifests are applied as they are: RBAC, webhooks, Service, Deployment; and a component\n\
         for the last story, by which Volume Warden may remember the namespaces of this cluster.",
    )?;
    narrator
        .run(
            "kubectl apply -k examples/demo/manifests",
            "deployment.apps/volume-warden created",
        )
        .await?;
    step(
        "A simulated pod runs no container. So the binary is started beside the cluster, with the\n\
         service account of the manifests and nothing more, and answers for their Service.",
    )?;
    let warden = Warden::builder(cluster, binary)
        .arg("--storage-backend=directory")
        // Nobody wants to wait a minute more in a demo.
        .arg("--gc-grace=0")
        .arg(format!("--directory-root={storage}"))
        .serving();
    let warden = warden.start().await?;
    webhooks_answer(narrator).await?;
    Ok(warden)
}

/// A dry run is never stored, so only admission can have added a finalizer: the API server has heard of the webhooks.
async fn webhooks_answer(narrator: &Narrator) -> Result<()> {
    for (file, finalizer) in [("claim", "pvc-protection"), ("volume", "pv-protection")] {
        let create =
            format!("kubectl create --dry-run=server -o yaml -f examples/demo/{file}.yaml");
        narrator.until(&create, &[finalizer]).await?;
    }
    Ok(())
}
