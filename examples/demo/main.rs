//! `cargo demo`: Volume Warden on a Kubernetes control plane of your own, and five stories to watch.
//!
//! Every state told is also checked: a story that goes another way ends the demo with exit code 1.

mod caches;
mod claims;
mod install;
mod namespaces;
mod narrator;
mod sets;
mod volumes;

use anyhow::{Result, ensure};
use clap::Parser;
use narrator::{Narrator, tell};
use std::{env, path::Path};
use volume_warden_controlplane::Cluster;

/// Shows Volume Warden at work on a Kubernetes control plane of your own, on loopback.
#[derive(Parser)]
#[command(name = "cargo demo")]
struct Arguments {
    /// End after the stories instead of waiting for Ctrl-C
    #[arg(long)]
    once: bool,
}

const OPENING: &str = "
This starts a real Kubernetes control plane on loopback: etcd, kube-apiserver, controller
manager and scheduler. Only the nodes and their pods are simulated, by KWOK. What Kubernetes has
of its own for these stories is switched off in it, so what you see is Volume Warden's doing.
The first run compiles all of that, which takes minutes; later runs take seconds.";

const INVITATION: &str = "
Volume Warden still runs on this cluster. From another terminal, try it yourself:";

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    // The commands shown name files of the repository, wherever the demo was started.
    env::set_current_dir(env!("CARGO_MANIFEST_DIR"))?;
    tell(OPENING)?;
    let binary = install::build()?;
    let cluster = Cluster::without_in_tree().name("demo").start().await?;
    let shown = show(&cluster, &binary, arguments.once).await;
    if shown.is_err() {
        let logs = cluster.dir().display();
        eprintln!("VOLUME_WARDEN_KEEP_LOGS=1 would keep the logs in {logs}.");
    }
    cluster.stop().await;
    shown?;
    Ok(tell("Volume Warden and its control plane have ended.")?)
}

/// Volume Warden from its start to its graceful end.
async fn show(cluster: &Cluster, binary: &Path, once: bool) -> Result<()> {
    let narrator = Narrator::new(cluster)?;
    let root = install::storage(cluster)?;
    let warden = install::install(&narrator, cluster, (binary, &root)).await?;
    // Before this Ctrl-C ends the process at once, and the cluster's guardian ends everything else.
    let played = tokio::select! {
        played = play(&narrator, &root, once) => played,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into),
    };
    tell("")?;
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
    if once {
        return Ok(());
    }
    tell(INVITATION)?;
    narrator.invite()?;
    tell("\nCtrl-C ends it all.")?;
    std::future::pending().await
}
