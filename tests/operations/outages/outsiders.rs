//! Pods of the cluster that send whatever they can to Volume Warden's ports, without knowing a
//! secret path. Each attack lasts for seconds, or 30 s with `VOLUME_WARDEN_SOAK=1`.

use super::ward::Ward;
use crate::support::{
    BINARY, claim, dry_run,
    outsiders::{Attack, GUESS, Outsiders, Ports},
    patience::wait_for_webhooks,
};
use anyhow::{Result, bail, ensure};
use kube::ResourceExt;
use serde_json::json;
use std::time::Duration;
use tokio::process::Command;

const PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Resident memory that no attack may exceed; a build for tests takes some more than a release.
const MEMORY: u64 = 128 << 20;

fn time() -> Duration {
    let soak = std::env::var_os("VOLUME_WARDEN_SOAK").is_some();
    Duration::from_secs(if soak { 30 } else { 3 })
}

/// No review fails open, no probe fails, metrics are served, and memory stays small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cost_nothing() -> Result<()> {
    let ward = Ward::open("outsiders").await?;
    // How soon they are answered is for the benchmark: half of the machine is busy with attacks.
    wait_for_webhooks(ward.cluster, None).await?;
    let ports = Ports {
        webhooks: ward.warden.webhook_port(),
        metrics: ward.warden.metrics_port(),
    };
    for attack in Attack::ALL {
        let attack_of_all = Outsiders::attack(ports, GUESS.to_owned(), attack, time());
        let mut attackers = tokio::spawn(attack_of_all);
        let connections = loop {
            for question in ["live", "ready"] {
                probe(&ward, question).await?;
            }
            let created = review(&ward).await?;
            ensure!(created, "{attack:?}: a review failed open");
            ward.warden.metrics().await?;
            if attackers.is_finished() {
                break (&mut attackers).await?;
            }
        };
        let peak = ward.warden.process().peak_memory_bytes()?;
        eprintln!("{attack:?}: {connections} connections, peak of {peak} bytes");
        ensure!(connections > 0, "{attack:?}: no client got through");
        ensure!(peak <= MEMORY, "{attack:?}: {peak} bytes resident");
    }
    ward.users.live().await?;
    ward.recovers().await
}

/// What the kubelet runs in the container. It acts when it has failed three times in a row
/// (`failureThreshold`).
async fn probe(ward: &Ward, question: &str) -> Result<()> {
    let address = format!("127.0.0.1:{}", ward.warden.probe_port());
    let mut failures = Vec::new();
    while failures.len() < 3 {
        let mut command = Command::new(BINARY);
        let command = command.args(["probe", question, "--probe-bind-address", &address]);
        let output = command.output().await?;
        if output.status.success() {
            return Ok(());
        }
        failures.push(output);
    }
    bail!("{question}: {failures:?}")
}

/// Whether the API server was answered.
async fn review(ward: &Ward) -> Result<bool> {
    let claim = claim("probe", json!({}))?;
    let created = ward.users.space.claims.create(&dry_run(), &claim).await?;
    Ok(created.finalizers().iter().any(|each| each == PROTECTION))
}
