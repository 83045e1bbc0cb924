//! Pods of the cluster that attack Volume Warden's ports without knowing a secret path. Each
//! attack lasts for seconds, or 30 s with `VOLUME_WARDEN_SOAK=1`.

use super::fixture::OutageFixture;
use crate::support::{
    BINARY, claim, dry_run, is_soak,
    outsiders::{Attack, GUESS, Outsiders, Ports},
};
use anyhow::{Result, bail, ensure};
use kube::ResourceExt;
use serde_json::json;
use std::time::Duration;
use tokio::process::Command;

const PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Maximum resident memory during an attack, in bytes. A test build uses more than a release build.
const MAX_MEMORY: u64 = 128 << 20;

fn attack_duration() -> Duration {
    Duration::from_secs(if is_soak() { 30 } else { 3 })
}

/// During each attack, no review fails open, probes succeed, metrics are served, and the memory use
/// stays within its limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_have_no_effect() -> Result<()> {
    // The benchmark measures latency, not this test: the attacks use half of the CPU time of this
    // machine.
    let fixture = OutageFixture::with_longest_timeouts("outsiders", None).await?;
    let ports = Ports {
        webhooks: fixture.warden.webhook_port(),
        metrics: fixture.warden.metrics_port(),
    };
    for attack in Attack::ALL {
        let clients = Outsiders::attack(ports, GUESS.to_owned(), attack, attack_duration());
        let mut attackers = tokio::spawn(clients);
        let connections = loop {
            for name in ["live", "ready"] {
                probe(&fixture, name).await?;
            }
            let reviewed = claim_is_reviewed(&fixture).await?;
            ensure!(reviewed, "{attack:?}: a review failed open");
            scrape(&fixture).await?;
            if attackers.is_finished() {
                break (&mut attackers).await?;
            }
        };
        let peak = fixture.warden.process().peak_memory_bytes()?;
        eprintln!("{attack:?}: {connections} connections, peak of {peak} bytes");
        ensure!(connections > 0, "{attack:?}: no connection was made");
        ensure!(peak <= MAX_MEMORY, "{attack:?}: {peak} bytes resident");
    }
    fixture.users.perform_all_operations().await?;
    fixture.recovers().await
}

/// Sends a probe as the kubelet does. The kubelet acts after three consecutive failures
/// (`failureThreshold`).
async fn probe(fixture: &OutageFixture, name: &str) -> Result<()> {
    let address = format!("127.0.0.1:{}", fixture.warden.probe_port());
    let mut failures = Vec::new();
    while failures.len() < 3 {
        let mut command = Command::new(BINARY);
        let command = command.args(["probe", name, "--probe-bind-address", &address]);
        let output = command.output().await?;
        if output.status.success() {
            return Ok(());
        }
        failures.push(output);
    }
    bail!("{name}: {failures:?}")
}

/// Scrapes the metrics, with two retries, because Prometheus scrapes repeatedly. At the limit of
/// connections, Volume Warden closes an older connection for a new one: possibly that of a scrape
/// whose request has not arrived yet.
async fn scrape(fixture: &OutageFixture) -> Result<()> {
    let mut failures = Vec::new();
    while failures.len() < 3 {
        match fixture.warden.metrics().await {
            Ok(_) => return Ok(()),
            Err(failure) => failures.push(failure),
        }
    }
    bail!("metrics: {failures:?}")
}

/// Whether a new claim is reviewed.
async fn claim_is_reviewed(fixture: &OutageFixture) -> Result<bool> {
    let claim = claim("probe", json!({}))?;
    let created = fixture
        .users
        .space
        .claims
        .create(&dry_run(), &claim)
        .await?;
    Ok(created.finalizers().iter().any(|each| each == PROTECTION))
}
