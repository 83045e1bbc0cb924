//! Attacks by clients without the secret path, from 64 addresses: whether reviews, probes and
//! scrapes are answered during the attack, and how much memory is resident.

use crate::{
    aims::Aims,
    outsiders::{Attack, GUESS, HOOKS, Outsiders, Ports},
    scene,
    size::Size,
    times::{Times, milliseconds},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::json;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use tokio::{process::Command, time::sleep};
use volume_warden_controlplane::{Cluster, Warden, eventually};

const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// Users that create claims during an attack, each of them sequentially.
const USERS: usize = 4;
/// The interval of probes, shorter than the kubelet's minimum of one second.
const PROBED_EVERY: Duration = Duration::from_millis(500);
const LIMIT: f64 = 128.0;
const MEBIBYTE: f64 = (1 << 20) as f64;

/// The results of one attack.
#[derive(Default)]
struct Row {
    name: String,
    connections: usize,
    reviews: Times,
    /// Reviews that failed open.
    unanswered: usize,
    probes: Times,
    /// Probes and scrapes that failed.
    failed: usize,
    resident: u64,
}

/// Runs the part, prints its table and returns the aims.
pub async fn measure(size: Size) -> Result<Aims> {
    let rows = scene::on(async |cluster| rows(cluster, size.attack).await).await?;
    print(&rows, size.attack);
    let sum = |figure: fn(&Row) -> usize| rows.iter().map(figure).sum::<usize>() as f64;
    let most = rows.iter().map(|row| row.resident).max();
    let most = most.unwrap_or_default() as f64 / MEBIBYTE;
    Ok(Aims::default()
        .at_most(
            "reviews that failed open",
            0.0,
            sum(|row| row.unanswered),
            "",
        )
        .at_most(
            "probes and scrapes that failed",
            0.0,
            sum(|row| row.failed),
            "",
        )
        .at_most("resident memory", LIMIT, most, "MiB"))
}

async fn rows(cluster: &Cluster, time: Duration) -> Result<Vec<Row>> {
    let warden = scene::warden(cluster).serving().start().await?;
    eventually("claims are protected at creation", async || {
        ensure!(review(cluster).await?.1, "the claim has no finalizer");
        Ok(())
    })
    .await?;
    let mut rows = vec![during(cluster, &warden, "none", None, time).await?];
    for attack in Attack::ALL {
        let (name, guess) = (format!("{attack:?}"), GUESS.to_owned());
        let attack = Some((attack, guess));
        rows.push(during(cluster, &warden, &name, attack, time).await?);
    }
    rows.push(informed(cluster, &warden, time).await?);
    Ok(rows)
}

async fn during(
    cluster: &Cluster,
    warden: &Warden,
    name: &str,
    attack: Option<(Attack, String)>,
    time: Duration,
) -> Result<Row> {
    let ports = Ports {
        webhooks: warden.webhook_port(),
        metrics: warden.metrics_port(),
    };
    let over = AtomicBool::new(false);
    let attackers = async {
        let connections = match attack {
            Some((attack, prefix)) => {
                tokio::spawn(Outsiders::attack(ports, prefix, attack, time)).await?
            }
            None => {
                sleep(time).await;
                0
            }
        };
        over.store(true, Ordering::Relaxed);
        anyhow::Ok(connections)
    };
    let users = futures::future::try_join_all((0..USERS).map(|_| reviews(cluster, &over)));
    let (connections, users, (probes, failed), resident) = tokio::try_join!(
        attackers,
        users,
        probes(warden, &over),
        resident(warden, &over)
    )?;
    let mut row = Row {
        name: name.to_owned(),
        connections,
        probes,
        failed,
        resident,
        ..Row::default()
    };
    for (times, unanswered) in users {
        row.reviews = std::mem::take(&mut row.reviews).and(times);
        row.unanswered += unanswered;
    }
    Ok(row)
}

/// Measures an attack by clients that have the secret path and send bodies of maximum size. Reviews
/// may then fail open, but memory must stay bounded.
async fn informed(cluster: &Cluster, warden: &Warden, time: Duration) -> Result<Row> {
    let path = "jsonpath={.webhooks[0].clientConfig.service.path}";
    let configuration = [
        "mutatingwebhookconfiguration",
        "volume-warden-pvc-protection",
    ];
    let get = [&["get"][..], &configuration, &["-o", path]].concat();
    let path = cluster.kubectl(&get).await?;
    let prefix = path.strip_suffix(HOOKS[0]).context("unexpected path")?;
    let attack = Some((Attack::Bodies, prefix.to_owned()));
    let name = "Bodies, with the path";
    let mut row = during(cluster, warden, name, attack, time).await?;
    // Not counted: the secret path exists to prevent this attack.
    row.unanswered = 0;
    Ok(row)
}

async fn review(cluster: &Cluster) -> Result<(Duration, bool)> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client(), "default");
    let claim = serde_json::from_value(json!({
        "metadata": {"name": "claim"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }))?;
    let (started, dry_run) = (Instant::now(), true);
    let parameters = PostParams {
        dry_run,
        ..PostParams::default()
    };
    let created = claims.create(&parameters, &claim).await?;
    Ok((started.elapsed(), created.finalizers() == [FINALIZER]))
}

async fn reviews(cluster: &Cluster, over: &AtomicBool) -> Result<(Times, usize)> {
    let (mut times, mut unanswered) = (Vec::new(), 0);
    while !over.load(Ordering::Relaxed) {
        let (time, answered) = review(cluster).await?;
        times.push(time);
        unanswered += usize::from(!answered);
        // During the pause, connections of the API server become idle, and it opens new ones.
        sleep(Duration::from_millis(20)).await;
    }
    Ok((times.into_iter().collect(), unanswered))
}

async fn probes(warden: &Warden, over: &AtomicBool) -> Result<(Times, usize)> {
    let address = format!("127.0.0.1:{}", warden.probe_port());
    let (mut times, mut failed) = (Vec::new(), 0);
    while !over.load(Ordering::Relaxed) {
        for question in ["live", "ready"] {
            let mut probe = Command::new(env!("CARGO_BIN_EXE_volume-warden"));
            let probe = probe.args(["probe", question, "--probe-bind-address", &address]);
            let started = Instant::now();
            let output = probe.output().await?;
            times.push(started.elapsed());
            failed += usize::from(!output.status.success());
        }
        failed += usize::from(warden.metrics().await.is_err());
        sleep(PROBED_EVERY).await;
    }
    Ok((times.into_iter().collect(), failed))
}

/// The peak of the resident memory, in bytes.
async fn resident(warden: &Warden, over: &AtomicBool) -> Result<u64> {
    let mut most = 0;
    while !over.load(Ordering::Relaxed) {
        most = most.max(warden.process().memory_bytes()?);
        sleep(Duration::from_millis(20)).await;
    }
    Ok(most)
}

fn print(rows: &[Row], time: Duration) {
    println!("\n**{USERS} users create claims, {time:?} during each attack**\n");
    println!(
        "| attack | connections | POST p50 | POST p99 | failed open | probe p50 | probe p99 | failed | resident |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {} | {} | {} | {} | {} | {:.0} MiB |",
            row.name,
            row.connections,
            row.reviews.cells(),
            row.unanswered,
            [50, 99]
                .map(|percent| milliseconds(row.probes.percentile(percent)))
                .join(" | "),
            row.failed,
            row.resident as f64 / MEBIBYTE,
        );
    }
}
