//! The path is replaced under load.

use super::*;
use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use tokio::time::interval;

const CLIENTS: usize = 16;
/// The interval between two claims of a client. Without it, the clients take all of the processor
/// from the tests that run beside them.
const PACE: Duration = Duration::from_millis(200);

/// Creates claims until `stop`, and checks that each has its finalizer; without it, its review was
/// missed.
async fn create(client: Client, reviewed: &AtomicUsize, stop: &AtomicBool) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, "default");
    let claim = claim("probe", json!({}))?;
    let mut pace = interval(PACE);
    while !stop.load(Ordering::Relaxed) {
        pace.tick().await;
        let created = claims.create(&dry_run(), &claim).await?;
        ensure!(created.metadata.finalizers.is_some(), "a review was missed");
        reviewed.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// All output of the installation that others can read.
async fn output(cluster: &Cluster, wardens: &[&Warden]) -> Result<String> {
    let mut output = cluster
        .kubectl(&["get", "events", "-A", "-o", "json"])
        .await?;
    for warden in wardens {
        output += &warden.process().log();
        output += &warden.metrics().await?;
    }
    Ok(output)
}

/// Two API servers, two replicas, eighty reviews a second and a new path: no review is missed, and
/// the path is never logged.
#[tokio::test]
async fn no_review_is_missed() -> Result<()> {
    let cluster = fresh::installed().await?;
    crate::support::patience::wait_for_webhooks(&cluster, None).await?;
    let second = SecondApiserver::start(&cluster).await?;
    let start = |name: &'static str| {
        let warden = Warden::builder(&cluster, BINARY).name(name);
        warden.arg("--webhook-path-rotation=40s").serving().start()
    };
    let wardens = tokio::try_join!(start("first"), start("second"))?;
    for client in [cluster.client(), second.client()?] {
        webhooks_answer(&client).await?;
    }
    let (reviewed, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let clients = (0..CLIENTS).map(async |number| {
        let client = match number % 2 {
            0 => cluster.client(),
            _ => second.client()?,
        };
        create(client, &reviewed, &stop).await
    });
    let watch = async {
        let mut paths = BTreeSet::new();
        let rotated = eventually_within(crate::certificates::PATIENCE, "a new path", async || {
            paths.extend(path_secret(&cluster).await?);
            ensure!(paths.len() >= 2, "{} paths", paths.len());
            anyhow::Ok(Some(paths.clone()))
        })
        .await;
        // The API servers learn of the last one by a watch.
        let before = reviewed.load(Ordering::Relaxed);
        let more = eventually("more claims are reviewed", async || {
            let reviewed = reviewed.load(Ordering::Relaxed);
            ensure!(reviewed > before + 20 * CLIENTS, "{reviewed}");
            Ok(())
        })
        .await;
        stop.store(true, Ordering::Relaxed);
        more?;
        rotated
    };
    let (_, paths) = tokio::try_join!(try_join_all(clients), watch)?;
    let output = output(&cluster, &[&wardens.0, &wardens.1]).await?;
    for path in paths {
        ensure!(!output.contains(&path), "a path was logged");
    }
    ensure!(output.contains("path published"), "it logs what it does");
    Ok(())
}
