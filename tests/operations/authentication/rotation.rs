//! The path is rotated under load.

use super::*;
use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use tokio::time::interval;

const CLIENTS: usize = 16;
/// The interval between two claims of a client. Without it, the clients take the CPU time of the
/// tests that run at the same time.
const CLAIM_INTERVAL: Duration = Duration::from_millis(200);

/// Creates claims by dry run until `stop`. A claim without a finalizer was not reviewed, and is an
/// error.
async fn create_claims(client: Client, reviewed: &AtomicUsize, stop: &AtomicBool) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, "default");
    let claim = claim("probe", json!({}))?;
    let mut ticks = interval(CLAIM_INTERVAL);
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let created = claims.create(&dry_run(), &claim).await?;
        ensure!(
            created.metadata.finalizers.is_some(),
            "a claim was not reviewed"
        );
        reviewed.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// All output that users can read: Events, logs and metrics.
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

/// Two replicas rotate the path while two API servers send eighty reviews a second. Every claim is
/// reviewed, and no path appears in Events, logs or metrics.
#[tokio::test]
async fn no_review_is_missed() -> Result<()> {
    let cluster = fresh::installed().await?;
    crate::support::webhook_timeouts::raise_webhook_timeouts(&cluster, None).await?;
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
        create_claims(client, &reviewed, &stop).await
    });
    let wait_for_rotation = async {
        let mut paths = BTreeSet::new();
        let rotated = eventually_within(
            crate::certificates::TIMEOUT,
            "the path is rotated",
            async || {
                paths.extend(secret_path(&cluster).await?);
                ensure!(paths.len() >= 2, "{} paths", paths.len());
                anyhow::Ok(Some(paths.clone()))
            },
        )
        .await;
        // The API servers receive the new path by a watch.
        let before = reviewed.load(Ordering::Relaxed);
        let reviews_continue = eventually("more claims are reviewed", async || {
            let reviewed = reviewed.load(Ordering::Relaxed);
            ensure!(reviewed > before + 20 * CLIENTS, "{reviewed}");
            Ok(())
        })
        .await;
        stop.store(true, Ordering::Relaxed);
        reviews_continue?;
        rotated
    };
    let (_, paths) = tokio::try_join!(try_join_all(clients), wait_for_rotation)?;
    let output = output(&cluster, &[&wardens.0, &wardens.1]).await?;
    for path in paths {
        ensure!(!output.contains(&path), "the output contains a path");
    }
    ensure!(
        output.contains("path published"),
        "the log does not report the published path"
    );
    Ok(())
}
