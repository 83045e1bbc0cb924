//! The duration and the calls of `volume-warden why` in a large cluster.
//!
//! N claims in M namespaces, each with two other pods besides the one that uses it. Claims are
//! deleted, so that each is held by its pod, and the command explains them sequentially. The time
//! is that of the whole process. The number of calls is the one that the command prints.
//!
//! `cargo bench --bench why`, or with other sizes (claims and namespaces):
//! `cargo bench --bench why -- 1000/10`.

#[path = "../shared/each.rs"]
mod each;
#[path = "../shared/namespace.rs"]
mod namespace;
#[path = "../shared/protected.rs"]
mod protected;
#[allow(dead_code, reason = "one table needs no more than percentiles")]
#[path = "../shared/times.rs"]
mod times;

use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use protected::{Space, claim_name};
use std::{process::Command, time::Instant};
use times::{Times, milliseconds};
use volume_warden_controlplane::{Cluster, Component};

/// The number of other pods for each claim, besides the one that uses it.
const OTHERS: usize = 2;
/// The number of claims to explain.
const ASKED: usize = 100;

#[tokio::main]
async fn main() -> Result<()> {
    volume_warden_controlplane::install_crypto_provider();
    let given: Vec<String> = std::env::args()
        .skip(1)
        .filter(|each| each.contains('/'))
        .collect();
    let sizes = if given.is_empty() {
        vec!["10000/100".to_owned(), "10000/1".to_owned()]
    } else {
        given
    };
    println!("| claims | pods | namespaces | p50 | p95 | calls |\n|---|---|---|---|---|---|");
    for size in sizes {
        let (claims, namespaces) = size.split_once('/').context("claims/namespaces")?;
        measure(claims.parse()?, namespaces.parse()?).await?;
    }
    Ok(())
}

async fn measure(claims: usize, namespaces: usize) -> Result<()> {
    let cluster = Cluster::without_in_tree().name("why").start().await?;
    let each_has = claims / namespaces;
    for index in 0..namespaces {
        namespace::create(&cluster, &named(index)).await?;
    }
    // From here on no pod has to run, and no claim or pod has to be bound or scheduled.
    for idle in [
        Component::Kwok,
        Component::Scheduler,
        Component::ControllerManager,
    ] {
        cluster.pause(idle)?;
    }
    for index in 0..namespaces {
        Space::new(&cluster, &named(index))
            .fill(each_has, each_has * OTHERS)
            .await?;
    }
    let (mut times, mut calls) = (Vec::new(), 0);
    for index in 0..ASKED {
        let (namespace, claim) = (named(index % namespaces), claim_name(index / namespaces));
        let space = Space::new(&cluster, &namespace);
        space
            .claims
            .delete(&claim, &DeleteParams::default())
            .await?;
        let began = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_volume-warden"))
            .args([
                "why",
                "pvc",
                &claim,
                "-n",
                &namespace,
                "-o",
                "json",
                "--kubeconfig",
            ])
            .arg(cluster.kubeconfig())
            .output()?;
        times.push(began.elapsed());
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        ensure!(answer["chain"][0]["code"] == "InUse", "{answer}");
        calls = calls.max(answer["calls"].as_u64().context("no calls")?);
    }
    let times: Times = times.into_iter().collect();
    let [p50, p95] = [50, 95].map(|percent| milliseconds(times.percentile(percent)));
    let pods = claims * (1 + OTHERS);
    println!("| {claims} | {pods} | {namespaces} | {p50} | {p95} | {calls} |");
    cluster.stop().await;
    Ok(())
}

fn named(index: usize) -> String {
    format!("space-{index:03}")
}
