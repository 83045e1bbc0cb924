//! Runs the static binary of the image as a container does: in a root directory with no other
//! content, so without a shell, libraries, `/etc` and `/proc`, and as a user that owns no file
//! there and has no write permission: first the user that the image names, then one that OpenShift
//! assigns.
//!
//! The test needs a standard library for musl, which rustup downloads, and a build of all crates,
//! so only the weekly run has it.

mod empty_root;

use anyhow::{Context, Result, bail, ensure};
use empty_root::{EmptyRoot, User};
use std::{
    path::{Path, PathBuf},
    process::Command,
};
use volume_warden_controlplane::{Cluster, Warden, eventually};

const COMMIT: &str = "0123456789ab";
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const CLAIM: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#;
const CREATE: [&str; 6] = [
    "create",
    "--dry-run=server",
    "-f",
    "-",
    "-o",
    "jsonpath={.metadata.finalizers[*]}",
];

/// Builds the binary with `release/build --dev`, and returns its path. A variable sets the commit
/// that the binary prints, as in the Containerfile.
fn binary() -> Result<PathBuf> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("there is no image for {other}"),
    };
    let built = Command::new("release/build")
        .args([architecture, "--dev"])
        .current_dir(ROOT)
        .env("VOLUME_WARDEN_COMMIT", COMMIT)
        .output()
        .context("starting release/build")?;
    let errors = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "release/build failed:\n{errors}");
    let path = String::from_utf8(built.stdout)?;
    Ok(Path::new(ROOT).join(path.trim()))
}

/// The steps are one test: a file that one thread has just written cannot be executed while another
/// thread starts a process.
#[tokio::test]
#[ignore = "builds the image's binary: cargo test --test image -- --ignored"]
async fn the_static_binary_needs_nothing_but_itself() -> Result<()> {
    let binary = tokio::task::spawn_blocking(binary).await??;
    let root = EmptyRoot::with(&binary)?;
    prints_its_commit(&root)?;
    serves_a_cluster_as_each_user(&root).await
}

fn prints_its_commit(root: &EmptyRoot) -> Result<()> {
    let output = Command::new(root.entry(User::ARBITRARY))
        .arg("--version")
        .output()?;
    let version = env!("CARGO_PKG_VERSION");
    ensure!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout)?,
        format!("volume-warden {version} (commit {COMMIT})\n")
    );
    Ok(())
}

async fn serves_a_cluster_as_each_user(root: &EmptyRoot) -> Result<()> {
    let cluster = Cluster::without_in_tree()
        .name("image")
        .nodes(1)
        .start()
        .await?;
    let manifests = Path::new(ROOT).join("manifests");
    cluster.apply_kustomization(manifests).await?;
    // The files that a pod mounts: a token and the CA of the API server.
    let kubeconfig = cluster.service_account_kubeconfig("volume-warden", "volume-warden", None);
    let kubeconfig = kubeconfig.await?;
    root.mount_kubeconfig(&kubeconfig)?;
    let files = root.files()?;

    for user in [User::IMAGE, User::ARBITRARY] {
        // Returns once the program is ready.
        let warden = Warden::builder(&cluster, root.entry(user)).kubeconfig(&kubeconfig);
        let warden = warden.serving().start().await?;
        assert_eq!(User::of(warden.process().pid())?, user);
        serves_and_stops(&cluster, warden).await?;
        assert_eq!(
            root.files()?,
            files,
            "the process wrote to its root directory"
        );
    }
    cluster.stop().await;
    Ok(())
}

async fn serves_and_stops(cluster: &Cluster, warden: Warden) -> Result<()> {
    eventually("claims are protected at creation", async || {
        let protected = cluster.kubectl_with_stdin(&CREATE, CLAIM).await?;
        ensure!(protected == "kubernetes.io/pvc-protection", "{protected}");
        Ok(())
    })
    .await?;
    let metrics = warden.metrics().await?;
    let info = metrics
        .lines()
        .find(|line| line.starts_with("volume_warden_build_info{"));
    ensure!(info.is_some_and(|line| line.contains(COMMIT)), "{info:?}");
    let log = warden.process().log();
    ensure!(log.contains(COMMIT), "{log}");
    let ended = warden.stop().await?;
    ensure!(ended.success(), "{ended}");
    Ok(())
}
