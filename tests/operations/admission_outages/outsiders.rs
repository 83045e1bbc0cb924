//! Pods of the cluster that attack Volume Warden's ports without knowing a secret path. Each
//! attack lasts for seconds, or 30 s with `VOLUME_WARDEN_SOAK=1`.

use super::fixture::OutageFixture;
use crate::support::{
    BINARY, claim, dry_run, is_soak,
    outsiders::{Attack, GUESS, Outsiders, Ports},
    patience::wait_for_webhooks,
};
use anyhow::{Result, bail, ensure};
use kube::ResourceExt;
use serde_json::json;
use std::time::Duration;
use tokio::process::Command;

const PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Resident memory that no attack may exceed. A test build uses more than a release build.
const MEMORY: u64 = 128 << 20;

fn time() -> Duration {
    Duration::from_secs(if is_soak() { 30 } else { 3 })
}

/// No review fails open, no probe fails, metrics are served, and memory stays small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_have_no_effect() -> Result<()> {
    let fixture = OutageFixture::open("outsiders").await?;
    // The benchmark measures latency: here the attacks use half of the machine.
    wait_for_webhooks(&fixture.cluster, None).await?;
    let ports = Ports {
        webhooks: fixture.warden.webhook_port(),
        metrics: fixture.warden.metrics_port(),
    };
    for attack in Attack::ALL {
        let attack_of_all = Outsiders::attack(ports, GUESS.to_owned(), attack, time());
        let mut attackers = tokio::spawn(attack_of_all);
        let connections = loop {
            for question in ["live", "ready"] {
                probe(&fixture, question).await?;
            }
            let created = review(&fixture).await?;
            ensure!(created, "{attack:?}: a review failed open");
            scrape(&fixture).await?;
            if attackers.is_finished() {
                break (&mut attackers).await?;
            }
        };
        let peak = fixture.warden.process().peak_memory_bytes()?;
        eprintln!("{attack:?}: {connections} connections, peak of {peak} bytes");
        ensure!(connections > 0, "{attack:?}: no connection was made");
        ensure!(peak <= MEMORY, "{attack:?}: {peak} bytes resident");
    }
    fixture.users.live().await?;
    fixture.recovers().await
}

/// Sends a probe as the kubelet does. The kubelet acts after three consecutive failures
/// (`failureThreshold`).
async fn probe(fixture: &OutageFixture, question: &str) -> Result<()> {
    let address = format!("127.0.0.1:{}", fixture.warden.probe_port());
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

/// Scrapes the metrics as Prometheus does, which scrapes again. At the limit of connections, a new
/// one takes the place of an older one, also of a scrape whose request has not arrived yet.
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

/// Whether a review was answered.
async fn review(fixture: &OutageFixture) -> Result<bool> {
    let claim = claim("probe", json!({}))?;
    let created = fixture
        .users
        .space
        .claims
        .create(&dry_run(), &claim)
        .await?;
    Ok(created.finalizers().iter().any(|each| each == PROTECTION))
}
