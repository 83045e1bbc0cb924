//! The delay of a write that prevents data loss while thousands of other writes are pending.
//!
//! 8,000 claims without pods are deleted while Volume Warden is stopped (SIGSTOP), so that the
//! removals of all their finalizers are pending when Volume Warden is resumed. Then 20 StatefulSets
//! with `whenScaled: Delete` are scaled from 2 to 1. When all claims are owned by their condemned
//! pods, the sets are scaled to 2 again. The time is from the response to that PATCH until a watch
//! shows the claim without the pod's reference. A finalizer holds the pod until one second after
//! that PATCH. Then the pod is deleted, and the garbage collector deletes the claim if the pod
//! still owns it.
//!
//! `cargo bench --bench priorities`. It fails if a claim is lost, or if a reference existed for
//! longer than one second. With `VOLUME_WARDEN_BENCH_SMALL=1` the sizes are small: this only tests
//! the benchmark, and the figures are not meaningful.

mod bulk;
#[path = "../shared/each.rs"]
mod each;
mod sets;
#[path = "../shared/stage.rs"]
mod stage;

use anyhow::Result;
use bulk::Bulk;
use futures::future::try_join_all;
use sets::{Outcome, Sets};
use std::{process::ExitCode, time::Duration};
use volume_warden_controlplane::{Cluster, Warden};

/// A reference must be removed within this time.
const AIM: Duration = Duration::from_secs(1);

/// The sizes of one run.
#[derive(Clone, Copy)]
struct Size {
    removals: usize,
    sets: usize,
}

impl Size {
    fn from_environment() -> Self {
        let (removals, sets) = match std::env::var_os("VOLUME_WARDEN_BENCH_SMALL") {
            Some(_) => (500, 3),
            None => (8000, 20),
        };
        Self { removals, sets }
    }
}

/// The results.
struct Measured {
    outcomes: Vec<Outcome>,
    /// Claims whose finalizer had not been removed before the sets were scaled up again, and after
    /// all sets were done.
    left: [usize; 2],
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let size = Size::from_environment();
    let cluster = Cluster::without_in_tree().name("priorities").nodes(1);
    let cluster = cluster
        .without_controllers(&stage::QUIET)
        .controller_manager_qps(Some((10_000, 10_000)))
        .start()
        .await?;
    let measured = measure(&cluster, size).await;
    cluster.stop().await;
    Ok(report(size, &measured?))
}

async fn measure(cluster: &Cluster, size: Size) -> Result<Measured> {
    stage::install(cluster).await?;
    // Otherwise the API server would wait for the webhooks of a stopped process.
    let webhooks = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    cluster.kubectl(&["delete", webhooks, "--all"]).await?;
    let builder = Warden::builder(cluster, env!("CARGO_BIN_EXE_volume-warden")).quiet();
    let warden = builder.start().await?;
    let (sets, bulk) = (Sets::new(cluster), Bulk::new(cluster, size.removals));
    sets.fill(size.sets).await?;
    bulk.fill().await?;
    warden.process().pause()?;
    bulk.delete().await?;
    warden.process().resume()?;
    let condemned = (0..size.sets).map(|index| sets.condemn(index));
    try_join_all(condemned).await?;
    let before = bulk.left().await?;
    let saved = (0..size.sets).map(|index| sets.scale_up_again(index, AIM));
    let outcomes = try_join_all(saved).await?;
    let left = [before, bulk.left().await?];
    Ok(Measured { outcomes, left })
}

fn report(size: Size, measured: &Measured) -> ExitCode {
    let Measured { outcomes, left } = measured;
    let survived = outcomes.iter().filter(|outcome| outcome.survived).count();
    let mut times: Vec<_> = outcomes.iter().map(|outcome| outcome.removed).collect();
    times.sort_unstable();
    let [median, longest] = [times.len() / 2, times.len() - 1].map(|place| times[place]);
    let (sets, removals) = (size.sets, size.removals);
    println!(
        "\n**{sets} sets are scaled up again while {removals} finalizers are to be removed**\n"
    );
    println!(
        "| reference removed after: p50 | longest | claims that survived | removals left before | and after |"
    );
    println!("|---|---|---|---|---|");
    println!(
        "| {} | {} | {survived} of {sets} | {} | {} |",
        milliseconds(median),
        milliseconds(longest),
        left[0],
        left[1],
    );
    let missed = survived < sets || longest > AIM;
    if missed {
        eprintln!("MISSED");
    }
    ExitCode::from(u8::from(missed))
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", 1000.0 * time.as_secs_f64())
}
