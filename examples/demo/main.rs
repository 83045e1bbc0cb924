//! `cargo demo`: Volume Warden on a local Kubernetes control plane, shown in six stories.
//!
//! Each story checks the states that it describes. A failed check ends the demo with exit code 1.

mod caches;
mod claims;
mod install;
mod namespaces;
mod narrator;
mod sets;
mod trash;
mod volumes;

use anyhow::{Result, ensure};
use clap::Parser;
use narrator::{Narrator, print};
use std::{env, path::Path};
use volume_warden_controlplane::Cluster;

/// Shows Volume Warden on a local Kubernetes control plane that listens on loopback only.
#[derive(Parser)]
#[command(name = "cargo demo")]
struct Arguments {
    /// End after the stories instead of waiting for Ctrl-C
    #[arg(long)]
    once: bool,
}

const OPENING: &str = "
This starts a real Kubernetes control plane on loopback: etcd, kube-apiserver, controller
manager and scheduler. Only the nodes and their pods are simulated, by KWOK. The built-in
Kubernetes controllers that do the same are disabled, so every effect is Volume Warden's.
The first run compiles these programs, which takes minutes; later runs take seconds.";

const INVITATION: &str = "
Volume Warden is still running on this cluster. To try it, enter in another terminal:";

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    // The commands shown name files relative to the repository, so the demo changes to that
    // directory.
    env::set_current_dir(env!("CARGO_MANIFEST_DIR"))?;
    print(OPENING)?;
    let binary = install::build()?;
    let cluster = Cluster::without_in_tree().name("demo").start().await?;
    let shown = show(&cluster, &binary, arguments.once).await;
    if shown.is_err() {
        let logs = cluster.dir().display();
        eprintln!("VOLUME_WARDEN_KEEP_LOGS=1 keeps the logs in {logs} the next time.");
    }
    cluster.stop().await;
    shown?;
    Ok(print("Volume Warden and its control plane have stopped.")?)
}

/// Starts Volume Warden, plays the stories, and stops it gracefully.
async fn show(cluster: &Cluster, binary: &Path, once: bool) -> Result<()> {
    let narrator = Narrator::new(cluster, binary)?;
    let root = install::storage(cluster)?;
    let warden = install::install(&narrator, cluster, (binary, &root)).await?;
    // Before this point Ctrl-C ends the process at once, and the cluster's guardian ends every
    // other process.
    let played = tokio::select! {
        played = play(&narrator, &root, once) => played,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into),
    };
    print("")?;
    let status = warden.stop().await;
    played?;
    let status = status?;
    ensure!(status.success(), "Volume Warden ended with {status}");
    Ok(())
}

async fn play(narrator: &Narrator, root: &str, once: bool) -> Result<()> {
    claims::play(narrator).await?;
    volumes::play(narrator).await?;
    sets::play(narrator).await?;
    caches::play(narrator).await?;
    namespaces::play(narrator, root).await?;
    trash::play(narrator).await?;
    if once {
        return Ok(());
    }
    print(INVITATION)?;
    narrator.invite()?;
    print("\nPress Ctrl-C to stop Volume Warden and the cluster.")?;
    std::future::pending().await
}
