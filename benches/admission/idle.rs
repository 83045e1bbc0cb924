//! The calls and the CPU time of an idle Volume Warden among many pods.

use crate::{
    aims::Aims,
    each::{AT_ONCE, each},
    protected::{Space, claim_name},
    rest::at_rest,
    scene,
    size::Size,
};
use anyhow::{Result, ensure};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use volume_warden_controlplane::{Call, Cluster, eventually_within};

/// The time limit for 20,000 writes.
const LIMIT: Duration = Duration::from_secs(600);

/// The calls and the CPU time during a period.
struct Idle {
    seconds: f64,
    /// Calls by verb and resource.
    calls: BTreeMap<String, usize>,
    cpu_seconds: f64,
    /// Writes of the condition `Unused` of all claims, before that period.
    conditions: usize,
}

/// Runs the part, prints its table and returns the aims.
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
    let space = Space::new(cluster, "default");
    space.fill(size.pods, 0).await?;
    let bound = cluster.audit().mark()?;
    bind(&space, size.pods).await?;
    has_conditions(&space, size.pods).await?;
    at_rest(warden.process()).await?;
    let of_conditions = cluster
        .audit()
        .since(bound)?
        .by_user_agent("volume-warden/");
    let of_conditions = of_conditions.iter();
    let conditions = of_conditions
        .filter(|call| kind(call) == "patch persistentvolumeclaims")
        .count();
    let (mark, started) = (cluster.audit().mark()?, Instant::now());
    let before = warden.process().cpu_seconds()?;
    tokio::time::sleep(size.window).await;
    let (seconds, after) = (started.elapsed(), warden.process().cpu_seconds()?);
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
        conditions,
    })
}

/// Sets the phase of the claims to Bound, as the PV controller does.
async fn bind(space: &Space, claims: usize) -> Result<()> {
    let status = json!({"status": {"phase": "Bound"}});
    each(claims, AT_ONCE, async |index| {
        let (name, merge) = (claim_name(index), Patch::Merge(&status));
        let as_usual = PatchParams::default();
        space.claims.patch_status(&name, &as_usual, &merge).await?;
        Ok(())
    })
    .await
    .map(drop)
}

/// Waits until all claims have the condition `Unused`.
async fn has_conditions(space: &Space, claims: usize) -> Result<()> {
    eventually_within(LIMIT, "all claims have the condition", async || {
        let listed = space.claims.list(&ListParams::default()).await?;
        let statuses = listed.items.into_iter().filter_map(|claim| claim.status);
        let conditions = statuses.filter_map(|status| status.conditions);
        let found = conditions.filter(|each| each.iter().any(|it| it.type_ == "Unused"));
        let found = found.count();
        ensure!(found == claims, "{found} of {claims}");
        Ok(())
    })
    .await
}

fn kind(call: &Call) -> String {
    format!("{} {}", call.verb, call.resource)
}

fn print(idle: &Idle, pods: usize) {
    let (seconds, rate, share) = (idle.seconds, idle.rate(), idle.share());
    println!("\n**{seconds:.0} s among {pods} pods, each with a claim of its own**\n");
    println!("| calls | |\n|---|---|");
    for (kind, count) in &idle.calls {
        println!("| {kind} | {count} |");
    }
    println!("\n{rate:.2} calls a second, {share:.2} % of a core");
    println!(
        "\n{} writes for {pods} conditions Unused before",
        idle.conditions
    );
}
