//! The duration and the calls of `volume-warden unused` in a large cluster, and whether its report
//! is correct.
//!
//! 10,000 claims or volumes, 500 of them unused in ten ways, 50 in each way. The command must
//! report exactly these 500, each with its reason. The time is that of the whole process.
//!
//! `cargo bench --bench unused`

#[path = "../shared/each.rs"]
mod each;
mod load;
#[path = "../shared/namespace.rs"]
mod namespace;
#[allow(dead_code, reason = "one table needs no more than percentiles")]
#[path = "../shared/times.rs"]
mod times;

use anyhow::{Context, Result, ensure};
use load::{EACH, Load, NAMESPACE, WAYS};
use serde_json::Value;
use std::{collections::BTreeMap, process::Command, time::Instant};
use times::{Times, milliseconds};
use volume_warden_controlplane::{Cluster, Component};

/// The number of claims and volumes, used or unused.
const ALL: usize = 10_000;
/// How often the command runs.
const RUNS: usize = 20;
/// The user whose calls are counted.
const USER: &str = "reader";

#[tokio::main]
async fn main() -> Result<()> {
    volume_warden_controlplane::install_crypto_provider();
    let cluster = Cluster::without_in_tree().name("unused").start().await?;
    namespace::create(&cluster, NAMESPACE).await?;
    // From here on no pod has to be scheduled, no claim bound, and no object created by a
    // controller.
    for idle in [
        Component::Kwok,
        Component::Scheduler,
        Component::ControllerManager,
    ] {
        cluster.pause(idle)?;
    }
    let load = Load::new(&cluster).await?;
    load.fill(ALL - WAYS.len() * EACH).await?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        let report = report(&cluster)?;
        times.push(began.elapsed());
        is_right(&report)?;
    }
    let calls = cluster.audit().all()?.by_user(USER).iter().count() / RUNS;
    let times: Times = times.into_iter().collect();
    let [p50, p95] = [50, 95].map(|percent| milliseconds(times.percentile(percent)));
    println!(
        "| claims and volumes | unused, all right | p50 | p95 | calls |\n|---|---|---|---|---|"
    );
    println!(
        "| {ALL} | {} | {p50} | {p95} | {calls} |",
        WAYS.len() * EACH
    );
    cluster.stop().await;
    Ok(())
}

fn report(cluster: &Cluster) -> Result<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volume-warden"));
    command.args(["unused", "-A", "-o", "json", load::REFERENCES]);
    command.args(["--as", USER, "--as-group", "system:masters", "--kubeconfig"]);
    let ran = command.arg(cluster.kubeconfig()).output()?;
    let errors = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success() && errors.is_empty(), "{errors}");
    Ok(serde_json::from_slice(&ran.stdout)?)
}

/// Checks that the report has [`EACH`] rows for each of [`WAYS`], with the state and the references
/// of the way, and no other rows.
fn is_right(report: &Value) -> Result<()> {
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    for item in report["items"].as_array().context("no items")? {
        let by = item["referencedBy"].as_array().context("no references")?;
        let by = by.iter().filter_map(Value::as_str).collect::<Vec<_>>();
        let state = item["state"].as_str().context("no state")?;
        let place = item["claim"].as_str().filter(|name| !name.is_empty());
        let place = place.or(item["volume"].as_str()).context("no name")?;
        let (way, index) = place.rsplit_once('-').context("no number")?;
        // Each claim has a snapshot with the number of the claim.
        let what = format!("{state} {}", by.join(", ")).replace(&format!("-{index}"), "");
        *found.entry((way.to_owned(), what)).or_default() += 1;
    }
    let expected = WAYS
        .iter()
        .map(|(way, what)| ((*way).to_owned(), (*what).to_owned()));
    let expected: BTreeMap<_, _> = expected.map(|key| (key, EACH)).collect();
    ensure!(found == expected, "{found:#?}");
    Ok(())
}
