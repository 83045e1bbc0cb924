//! Both replicas are replaced, one after the other, while the API server sends reviews.

use super::fixture::SERVICE;
use crate::{
    fresh,
    support::{BINARY, claim, patience::wait_for_webhooks, webhooks_answer},
};
use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use serde_json::json;
use std::{
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

/// The time between two creations of claims: 200 a second.
const PACE: Duration = Duration::from_millis(5);
/// Concurrent creations; further ones wait. For more, the API server would open connections that
/// it does not keep.
const AT_ONCE: usize = 20;
/// One of this many creations is stored.
const STORED: usize = 10;
/// The time after which every node knows a change of readiness. A replica's lame duck period is 5
/// s.
const PROPAGATION: Duration = Duration::from_secs(1);

/// No review is lost: none fails open, every creation succeeds, and admission adds a finalizer to
/// every claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_loses_no_review() -> Result<()> {
    let cluster = fresh::installed().await?;
    wait_for_webhooks(&cluster, None).await?;
    let replicas = Replicas::start(&cluster).await?;
    webhooks_answer(&cluster.client()).await?;
    let mark = cluster.audit().mark()?;
    let (skipped, began) = (cluster.webhooks().skipped(), Instant::now());

    let stop = CancellationToken::new();
    let traffic = tokio::spawn(create_claims(cluster.client(), stop.clone()));
    for turn in 0..2 {
        replicas.replace(&cluster, turn).await?;
    }
    stop.cancel();
    let created = traffic.await?.with_context(|| failed_open(&cluster))?;
    println!("{created} creations in {:?}", began.elapsed());

    let calls = cluster.audit().since(mark)?;
    let lost: Vec<_> = calls
        .iter()
        .filter(|call| !call.unasked.is_empty())
        .collect();
    ensure!(
        lost.is_empty(),
        "{} reviews were lost: {:?}",
        lost.len(),
        lost.first()
    );
    let seen = calls
        .iter()
        .filter(|call| call.verb == "create" && call.resource == "persistentvolumeclaims");
    ensure!(
        seen.count() >= created,
        "the audit log knows less than was created"
    );
    let skipped = cluster.webhooks().skipped() - skipped;
    ensure!(
        skipped == 0,
        "{skipped} connections found a closed port behind the Service"
    );
    Ok(())
}

/// The API server's last log lines about failing open, at most three.
fn failed_open(cluster: &Cluster) -> String {
    let log = cluster.log(Component::Apiserver);
    let mut lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("failing open"))
        .collect();
    let last = lines.split_off(lines.len().saturating_sub(3));
    last.join("\n")
}

/// Two processes behind the Service.
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
        let endpoints = tokio::spawn(follow(cluster.webhooks().clone(), running.clone()));
        Ok(Self { running, endpoints })
    }

    /// Replaces a replica as a rolling update does: stops it, waits until it has ended, and starts
    /// another.
    async fn replace(&self, cluster: &Cluster, turn: usize) -> Result<()> {
        let old = self
            .running
            .lock()
            .get(turn)
            .cloned()
            .context("a replica")?;
        old.process().terminate()?;
        let status = old.process().wait(Duration::from_secs(60)).await?;
        ensure!(status.success(), "{status}");
        let new = start(cluster, &format!("successor-{turn}")).await?;
        self.running.lock()[turn] = new;
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

/// Turns readiness into endpoints of the Service, as kubelet, the endpoints controller and
/// kube-proxy do together.
async fn follow(webhooks: Webhooks, running: Running) {
    let mut tick = interval(PROPAGATION);
    loop {
        let replicas = running.lock().clone();
        let asked = replicas.iter().map(async |replica| {
            let ready = match timeout(PROPAGATION, replica.readiness()).await {
                Ok(Ok(status)) => status == 200,
                // A kubelet tolerates probes without an answer, which a busy machine causes: only
                // the end of the process counts. A slow replica must not keep another one, which
                // may be shutting down, among the endpoints.
                Ok(Err(_)) | Err(_) => replica.process().is_running(),
            };
            ready.then(|| replica.webhook_port())
        });
        let ready = join_all(asked).await.into_iter().flatten();
        webhooks.serve(SERVICE, ready.collect());
        tick.tick().await;
    }
}

/// Creates claims until `stop`, and returns their number. The first failure ends it.
async fn create_claims(client: Client, stop: CancellationToken) -> Result<usize> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let (mut tasks, mut count) = (JoinSet::new(), 0);
    let mut tick = interval(PACE);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !stop.is_cancelled() {
        tick.tick().await;
        let place = places.clone().acquire_owned().await?;
        let claims = Api::namespaced(client.clone(), "default");
        tasks.spawn(async move {
            let answer = create_claim(&claims, count).await;
            drop(place);
            answer
        });
        count += 1;
        while let Some(answer) = tasks.try_join_next() {
            answer??;
        }
    }
    while let Some(answer) = tasks.join_next().await {
        answer??;
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
