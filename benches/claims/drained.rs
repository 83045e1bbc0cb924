//! The latency of a pod's creation while the reconciler removes the finalizers of thousands of
//! claims.

use crate::{
    Missed, births,
    figures::Times,
    gone::all_gone,
    pods::times,
    protected, scene,
    size::{SIDE_BY_SIDE, Size},
};
use anyhow::Result;
use std::time::{Duration, Instant};
use volume_warden_controlplane::Cluster;

struct Outcome {
    /// The time from the resume to the deletion of the last protected claim.
    drain: Duration,
    times: Times,
    /// Claims that existed before their pods.
    in_time: usize,
    /// POSTs that were answered before the last protected claim was deleted.
    meanwhile: usize,
    failed_open: u64,
}

/// Runs the part and prints its table.
pub async fn measure(size: Size) -> Result<Missed> {
    let outcome = scene::on(scene::still(), async |cluster| run(cluster, size).await).await?;
    let (pods, claims, in_time) = (size.pods, size.drained, outcome.in_time);
    println!(
        "\n**{pods} annotated pods are created, {SIDE_BY_SIDE} at a time, while {claims} claims go**\n"
    );
    println!(
        "| claims gone after | POSTs by then | POST p50 | POST p99 | claims there at the POST's return | not waited for |"
    );
    println!("|---|---|---|---|---|---|");
    println!(
        "| {:.2} s | {} | {} | {in_time} of {pods} | {} |",
        outcome.drain.as_secs_f64(),
        outcome.meanwhile,
        outcome.times.cells(),
        outcome.failed_open,
    );
    let late = pods - in_time;
    let late =
        (late > 0).then(|| format!("{late} of {pods} claims were not there at the POST's return"));
    let failed = outcome.failed_open;
    let failed = (failed > 0).then(|| format!("{failed} webhook calls failed open"));
    Ok(late.into_iter().chain(failed).collect())
}

async fn run(cluster: &Cluster, size: Size) -> Result<Outcome> {
    scene::hold_pods(cluster)?;
    let client = cluster.client();
    let warden = scene::served(cluster).await?;
    let held = protected::Space::new(cluster, "default");
    held.fill(size.drained, 0).await?;
    let warm = scene::space(cluster, "warm").await?;
    births::annotated(&warm, size.pods, SIDE_BY_SIDE).await?;
    let space = scene::space(cluster, "annotated").await?;
    held.delete_claims(size.drained).await?;
    // Stops Volume Warden, so that all finalizers can be removed from the resume on.
    warden.process().pause()?;
    held.delete_users(size.drained).await?;
    let gone = all_gone(&held.claims, size.drained).await?;
    let before = scene::failed_open(&client).await?;
    let started = Instant::now();
    warden.process().resume()?;
    let (posted, in_time) = births::annotated(&space, size.pods, SIDE_BY_SIDE).await?;
    let drain = Duration::from_secs_f64(gone.after(started).await?);
    let by_then = posted.iter().filter(|pod| pod.returned < started + drain);
    Ok(Outcome {
        drain,
        meanwhile: by_then.count(),
        times: times(&posted),
        in_time,
        failed_open: scene::failed_open(&client).await? - before,
    })
}
