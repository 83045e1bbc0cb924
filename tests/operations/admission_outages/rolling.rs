//! Both replicas are replaced, one after the other, while the API server sends reviews.

use super::fixture::SERVICE;
use crate::{
    fresh,
    support::{BINARY, claim, webhook_timeouts::raise_webhook_timeouts, webhooks_answer},
};
use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;
use volume_warden_controlplane::{Cluster, Component, Warden, Webhooks};

/// The interval between two creations of claims: 200 a second.
const CREATION_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of concurrent creations. For more of them, the API server would open connections
/// that it does not keep.
const MAX_CONCURRENT: usize = 20;
/// One of this many creations is stored; the others are dry runs.
const STORED: usize = 10;
/// The time after which every node routes requests according to a change of readiness. The
/// lame-duck period of a replica is 5 s.
const PROPAGATION: Duration = Duration::from_secs(1);

/// During a rolling restart, no review fails open, every creation of a claim succeeds, and
/// admission adds a finalizer to every claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_loses_no_review() -> Result<()> {
    let cluster = fresh::installed().await?;
    raise_webhook_timeouts(&cluster, None).await?;
    let replicas = Replicas::start(&cluster).await?;
    webhooks_answer(&cluster.client()).await?;
    let mark = cluster.audit().mark()?;
    let (skipped, began) = (cluster.webhooks().skipped(), Instant::now());

    let stop = CancellationToken::new();
    let traffic = tokio::spawn(create_claims(cluster.client(), stop.clone()));
    for index in 0..2 {
        replicas.replace(&cluster, index).await?;
    }
    stop.cancel();
    let created = traffic
        .await?
        .with_context(|| failed_open_lines(&cluster))?;
    println!("{created} creations in {:?}", began.elapsed());

    let calls = cluster.audit().since(mark)?;
    let failed_open: Vec<_> = calls
        .iter()
        .filter(|call| !call.failed_open.is_empty())
        .collect();
    ensure!(
        failed_open.is_empty(),
        "{} requests failed open: {:?}",
        failed_open.len(),
        failed_open.first()
    );
    let creations = calls
        .iter()
        .filter(|call| call.verb == "create" && call.resource == "persistentvolumeclaims");
    ensure!(
        creations.count() >= created,
        "the audit log does not contain all creations"
    );
    let skipped = cluster.webhooks().skipped() - skipped;
    ensure!(
        skipped == 0,
        "{skipped} connections to the Service met a closed port"
    );
    Ok(())
}

/// The last lines of the API server's log about reviews that failed open, at most three.
fn failed_open_lines(cluster: &Cluster) -> String {
    let log = cluster.log(Component::Apiserver);
    let mut lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("failing open"))
        .collect();
    let last = lines.split_off(lines.len().saturating_sub(3));
    last.join("\n")
}

/// Two replicas behind the Service.
struct Replicas {
    running: Running,
    endpoints: JoinHandle<()>,
}

type Running = Arc<Mutex<Vec<Arc<Warden>>>>;

impl Replicas {
    async fn start(cluster: &Cluster) -> Result<Self> {
        let running = Running::default();
        for name in ["first", "second"] {
            let warden = start(cluster, name).await?;
            running.lock().push(warden);
        }
        let endpoints = tokio::spawn(update_endpoints(
            cluster.webhooks().clone(),
            running.clone(),
        ));
        Ok(Self { running, endpoints })
    }

    /// Replaces the replica at `index`: terminates it, waits until it has exited, and starts
    /// another one.
    async fn replace(&self, cluster: &Cluster, index: usize) -> Result<()> {
        let old = self
            .running
            .lock()
            .get(index)
            .cloned()
            .context("a replica")?;
        old.process().terminate()?;
        let status = old.process().wait(Duration::from_secs(60)).await?;
        ensure!(status.success(), "{status}");
        let new = start(cluster, &format!("successor-{index}")).await?;
        self.running.lock()[index] = new;
        Ok(())
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        self.endpoints.abort();
    }
}

async fn start(cluster: &Cluster, name: &str) -> Result<Arc<Warden>> {
    let warden = Warden::builder(cluster, BINARY).name(name).quiet().start();
    Ok(Arc::new(warden.await?))
}

/// Routes the Service to the ready replicas, as the kubelet, the EndpointSlice controller and
/// kube-proxy do together.
async fn update_endpoints(webhooks: Webhooks, running: Running) {
    let mut tick = interval(PROPAGATION);
    let mut known = BTreeMap::new();
    loop {
        let replicas = running.lock().clone();
        let probes = replicas.iter().map(async |replica| {
            let port = replica.webhook_port();
            let ready = match timeout(PROPAGATION, replica.readiness()).await {
                Ok(Ok(status)) => status == 200,
                // On a busy machine, a probe may get no answer, which the kubelet tolerates: such a
                // replica stays what it was while its process runs. A replica that ends closes the
                // port of the probes last, and must not become an endpoint again. The timeout is
                // short, because a slow probe delays the removal of another replica, which may be
                // shutting down.
                Ok(Err(_)) | Err(_) => {
                    replica.process().is_running() && known.get(&port).is_none_or(|ready| *ready)
                }
            };
            (port, ready)
        });
        let probed = join_all(probes).await;
        known = probed.into_iter().collect();
        let ready = known.iter().filter(|(_, ready)| **ready);
        webhooks.serve(SERVICE, ready.map(|(port, _)| *port).collect());
        tick.tick().await;
    }
}

/// Creates claims until `stop`, and returns their number. Returns the first error.
async fn create_claims(client: Client, stop: CancellationToken) -> Result<usize> {
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT));
    let (mut tasks, mut count) = (JoinSet::new(), 0);
    let mut tick = interval(CREATION_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !stop.is_cancelled() {
        tick.tick().await;
        let permit = permits.clone().acquire_owned().await?;
        let claims = Api::namespaced(client.clone(), "default");
        tasks.spawn(async move {
            let result = create_claim(&claims, count).await;
            drop(permit);
            result
        });
        count += 1;
        while let Some(result) = tasks.try_join_next() {
            result??;
        }
    }
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    Ok(count)
}

async fn create_claim(claims: &Api<PersistentVolumeClaim>, number: usize) -> Result<()> {
    let parameters = PostParams {
        dry_run: !number.is_multiple_of(STORED),
        ..PostParams::default()
    };
    let name = format!("claim-{number}");
    let created = claims.create(&parameters, &claim(&name, json!({}))?).await;
    let finalizers = created.with_context(|| name.clone())?.metadata.finalizers;
    ensure!(
        finalizers.as_deref() == Some(&["kubernetes.io/pvc-protection".to_owned()]),
        "{name} was created with {finalizers:?}"
    );
    Ok(())
}
