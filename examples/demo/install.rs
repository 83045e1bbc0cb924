//! Builds, installs and starts Volume Warden.

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

/// Prefixes of the variables by which `cargo run` describes the package of the demo, and that its
/// build script sets.
const PACKAGE: [&str; 4] = [
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "OUT_DIR",
    "VOLUME_WARDEN_COMMIT",
];

/// Builds the binary, because cargo builds none for an example, and returns its path.
///
/// The command also names the example, so cargo resolves the same features and reuses the
/// dependencies already built.
pub fn build() -> Result<PathBuf> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--locked"])
        .args(["--bin", "volume-warden", "--example", "demo"]);
    // The build scripts of ring and of this package run again if one of these changes, and what
    // depends on them is compiled again.
    let describes_package = |name: &OsString| {
        PACKAGE
            .iter()
            .any(|&prefix| name.to_string_lossy().starts_with(prefix))
    };
    for name in env::vars_os()
        .map(|(name, _)| name)
        .filter(describes_package)
    {
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

/// Creates the storage of the fifth story in the cluster's directory, which is deleted with the
/// cluster, and returns its path.
pub fn storage(cluster: &Cluster) -> Result<String> {
    let root = cluster.dir().join("storage");
    fs::create_dir(&root)?;
    fs::write(root.join(".volume-warden-root"), "")?;
    Ok(root.display().to_string())
}

/// Installs the default manifests, and starts Volume Warden with the service account that they
/// create, and with `storage`.
pub async fn install(
    narrator: &Narrator,
    cluster: &Cluster,
    (binary, storage): (&Path, &str),
) -> Result<Warden> {
    title("Installing Volume Warden")?;
    step(
        "The demo applies the shipped manifests unchanged: RBAC, webhooks, Service and Deployment; and,\n\
         for the fifth story, a component that lets Volume Warden record this cluster's namespaces.",
    )?;
    narrator
        .run(
            "kubectl apply -k examples/demo/manifests",
            "deployment.apps/volume-warden created",
        )
        .await?;
    step(
        "A simulated pod runs no container. The demo starts the binary outside of the cluster, with\n\
         only the permissions of the manifests' service account, as the endpoint of their Service.",
    )?;
    let warden = Warden::builder(cluster, binary)
        .arg("--storage-backend=directory")
        // The default of one minute would delay the demo.
        .arg("--gc-grace=0")
        .arg(format!("--directory-root={storage}"))
        .serving();
    let warden = warden.start().await?;
    webhooks_answer(narrator).await?;
    Ok(warden)
}

/// Waits until the API server calls the webhooks. A dry run is never stored, so only admission can
/// have added a finalizer.
async fn webhooks_answer(narrator: &Narrator) -> Result<()> {
    for (file, finalizer) in [("claim", "pvc-protection"), ("volume", "pv-protection")] {
        let create =
            format!("kubectl create --dry-run=server -o yaml -f examples/demo/{file}.yaml");
        narrator.until(&create, &[finalizer]).await?;
    }
    Ok(())
}
