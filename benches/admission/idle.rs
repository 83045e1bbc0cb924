//! The work of an idle Volume Warden among many pods.

use crate::{aims::Aims, protected::Space, rest::at_rest, scene, size::Size};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use volume_warden_controlplane::{Call, Cluster, Process};

/// Of `/proc/<pid>/stat`, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The work during a period.
struct Idle {
    seconds: f64,
    /// Calls by verb and resource.
    calls: BTreeMap<String, usize>,
    cpu_seconds: f64,
}

/// Prints the table and returns the aims.
pub async fn measure(size: Size) -> Result<Aims> {
    let idle = scene::on(async |cluster| idle(cluster, size).await).await?;
    print(&idle, size.pods);
    Ok(Aims::default()
        .at_most("API calls", 1.0, idle.rate(), "a second")
        .at_most("CPU", 1.0, idle.share(), "% of a core"))
}

impl Idle {
    fn rate(&self) -> f64 {
        self.calls.values().sum::<usize>() as f64 / self.seconds
    }

    fn share(&self) -> f64 {
        100.0 * self.cpu_seconds / self.seconds
    }
}

async fn idle(cluster: &Cluster, size: Size) -> Result<Idle> {
    let warden = scene::warden(cluster).serving().start().await?;
    Space::new(cluster, "default").fill(size.pods, 0).await?;
    at_rest(warden.process()).await?;
    let (mark, started) = (cluster.audit().mark()?, Instant::now());
    let before = cpu_seconds(warden.process())?;
    tokio::time::sleep(size.window).await;
    let (seconds, after) = (started.elapsed(), cpu_seconds(warden.process())?);
    let mut calls = BTreeMap::new();
    for call in cluster
        .audit()
        .since(mark)?
        .by_user_agent("volume-warden/")
        .iter()
    {
        *calls.entry(kind(call)).or_default() += 1;
    }
    Ok(Idle {
        seconds: Duration::as_secs_f64(&seconds),
        calls,
        cpu_seconds: after - before,
    })
}

fn kind(call: &Call) -> String {
    format!("{} {}", call.verb, call.resource)
}

/// CPU time of all threads of the process, in user and kernel mode.
fn cpu_seconds(process: &Process) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid()))?;
    // The second field is the name in brackets, which may contain any character; utime and stime
    // are the 14th and the 15th field.
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / TICKS_PER_SECOND)
}

fn print(idle: &Idle, pods: usize) {
    let (seconds, rate, share) = (idle.seconds, idle.rate(), idle.share());
    println!("\n**{seconds:.0} s among {pods} pods, each with a claim of its own**\n");
    println!("| calls | |\n|---|---|");
    for (kind, count) in &idle.calls {
        println!("| {kind} | {count} |");
    }
    println!("\n{rate:.2} calls a second, {share:.2} % of a core");
}
