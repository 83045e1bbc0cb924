//! The latency that admission adds to the creation of a claim.

use crate::{
    aims::Aims,
    each::each,
    scene,
    size::Size,
    switch::{Switch, probe},
    times::Times,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::json;
use std::time::{Duration, Instant};
use volume_warden_controlplane::Cluster;

const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// The numbers of concurrent requests.
const AT_ONCE: [usize; 2] = [1, 16];
/// Turns with and without the webhook alternate, because the machine's speed drifts.
const TURNS: [Hook; 4] = [Hook::Absent, Hook::There, Hook::There, Hook::Absent];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hook {
    /// No webhook. The request has the finalizer, because the reconciler would otherwise add it
    /// during the measurement.
    Absent,
    /// The webhook adds the finalizer.
    There,
}

/// The POSTs with or without the webhook, with one number of concurrent requests.
struct Row {
    hook: Hook,
    at_once: usize,
    times: Times,
}

/// Runs the part and prints its table.
pub async fn measure(size: Size) -> Result<Aims> {
    let rows = scene::on(async |cluster| rows(cluster, size.claims).await).await?;
    print(&rows, 2 * size.claims);
    Ok(Aims::default())
}

async fn rows(cluster: &Cluster, count: usize) -> Result<Vec<Row>> {
    let _warden = scene::warden(cluster).serving().start().await?;
    let client = cluster.client();
    let claims = Api::namespaced(client.clone(), "default");
    probe(&claims, claim("probe", None)?, true).await?;
    let switch = Switch::of(&client).await?;
    // Warms up: the first claims of a new control plane take longer.
    turn(cluster, "warm", Hook::There, count).await?;
    let mut rows: Vec<Row> = Vec::new();
    for (number, hook) in TURNS.into_iter().enumerate() {
        switch.turn(hook == Hook::There).await?;
        probe(&claims, claim("probe", None)?, hook == Hook::There).await?;
        for row in turn(cluster, &format!("turn-{number}"), hook, count).await? {
            merge(&mut rows, row);
        }
    }
    Ok(rows)
}

/// Adds the times to the existing row with the same `hook` and `at_once`, if there is one.
fn merge(rows: &mut Vec<Row>, row: Row) {
    let same = |other: &&mut Row| (other.hook, other.at_once) == (row.hook, row.at_once);
    match rows.iter_mut().find(same) {
        Some(other) => other.times = std::mem::take(&mut other.times).and(row.times),
        None => rows.push(row),
    }
}

async fn turn(cluster: &Cluster, name: &str, hook: Hook, count: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for at_once in AT_ONCE {
        let space = format!("{name}-{at_once}");
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": space}}))?;
        let namespaces = Api::all(cluster.client());
        let parameters = PostParams::default();
        namespaces.create(&parameters, &namespace).await?;
        let claims = Api::namespaced(cluster.client(), &space);
        let posts = each(count, at_once, async |index| {
            post(&claims, hook, index).await
        });
        rows.push(Row {
            hook,
            at_once,
            times: posts.await?.into_iter().collect(),
        });
    }
    Ok(rows)
}

async fn post(claims: &Api<PersistentVolumeClaim>, hook: Hook, index: usize) -> Result<Duration> {
    let brought = (hook == Hook::Absent).then_some(FINALIZER);
    let claim = claim(&format!("claim-{index:05}"), brought)?;
    let started = Instant::now();
    let created = claims.create(&PostParams::default(), &claim).await?;
    let took = started.elapsed();
    ensure!(
        created.finalizers() == [FINALIZER],
        "the webhook did not add the finalizer"
    );
    Ok(took)
}

/// A claim of a class without a provisioner.
fn claim(name: &str, finalizer: Option<&str>) -> Result<PersistentVolumeClaim> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "finalizers": finalizer.into_iter().collect::<Vec<_>>()},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "unprovisioned", "resources": {"requests": {"storage": "1Gi"}}},
    }))?)
}

fn print(rows: &[Row], count: usize) {
    println!("\n**{count} claims are created**\n");
    println!(
        "| webhook configurations | at a time | POST p50 | POST p99 | added p50 | added p99 |"
    );
    println!("|---|---|---|---|---|---|");
    for row in rows {
        let who = match row.hook {
            Hook::Absent => "absent",
            Hook::There => "there",
        };
        let floor = |other: &&Row| other.at_once == row.at_once && other.hook == Hook::Absent;
        let floor = rows.iter().find(floor).filter(|_| row.hook == Hook::There);
        let added = floor.map_or("– | –".to_owned(), |floor| {
            row.times.cells_above(&floor.times)
        });
        println!(
            "| {who} | {} | {} | {added} |",
            row.at_once,
            row.times.cells()
        );
    }
}
