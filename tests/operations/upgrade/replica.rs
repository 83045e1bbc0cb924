//! Two processes of either version behind the Service, and which of them lead.

use crate::support::{BINARY, deployment::arguments, kustomization::NAMESPACE};
use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use std::{
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{interval, timeout},
};
use tokio_util::sync::CancellationToken;
use volume_warden_controlplane::{Cluster, Process, eventually};

const SERVICE: &str = "volume-warden.volume-warden.svc";
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of either version.
pub struct Replica {
    process: Process,
    webhooks: u16,
    metrics: u16,
    /// Whether it no longer gets reviews, because it is being stopped. It may still lead.
    stopping: AtomicBool,
}

pub type Running = Arc<Mutex<Vec<Arc<Replica>>>>;

impl Replica {
    /// Starts a replica as the Deployment would, and waits until it is ready.
    pub async fn start(cluster: &Cluster, name: &str, former: Option<&Path>) -> Result<Arc<Self>> {
        let account = cluster.service_account_kubeconfig(NAMESPACE, NAMESPACE, None);
        let mut command = Command::new(former.unwrap_or(Path::new(BINARY)));
        let [webhooks, metrics, probes] = free_ports()?;
        let local = |port: u16| format!("127.0.0.1:{port}");
        command.arg("run").arg("--kubeconfig").arg(account.await?);
        command.args(arguments(cluster, NAMESPACE).await?);
        let flags = match former {
            Some(_) => ["--webhook-address", "--metrics-address"],
            None => ["--webhook-bind-address", "--metrics-bind-address"],
        };
        command.args([flags[0], &local(webhooks), flags[1], &local(metrics)]);
        if former.is_none() {
            command.args(["--probe-bind-address", &local(probes)]);
        }
        let replica = Arc::new(Self {
            process: cluster.spawn(name, command)?,
            webhooks,
            metrics,
            stopping: AtomicBool::new(false),
        });
        eventually(&format!("{name} is ready"), async || {
            ensure!(replica.process.is_running(), "{}", replica.process.log());
            let answer = get(metrics, "/readyz").await?;
            let status = answer.split_whitespace().nth(1);
            ensure!(status == Some("200"), "{answer}");
            Ok(())
        })
        .await?;
        Ok(replica)
    }

    /// Ends it as a rollout does.
    async fn stop(&self) -> Result<()> {
        self.process.terminate()?;
        let status = self.process.wait(PATIENCE).await?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    async fn leads(&self) -> bool {
        let metrics = get(self.metrics, "/metrics").await.unwrap_or_default();
        metrics.lines().any(|line| line == "volume_warden_leader 1")
    }
}

fn free_ports() -> Result<[u16; 3]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let sockets = [bind()?, bind()?, bind()?];
    let [first, second, third] = sockets.each_ref().map(|socket| socket.local_addr());
    Ok([first?.port(), second?.port(), third?.port()])
}

async fn get(port: u16, path: &str) -> Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    timeout(Duration::from_secs(5), exchange).await?
}

fn all(running: &Running) -> Vec<Arc<Replica>> {
    let running = running.lock();
    running.clone()
}

/// Sends reviews to those replicas that are not being stopped.
fn serve(cluster: &Cluster, running: &Running) {
    let replicas = all(running).into_iter();
    let serving = replicas.filter(|each| !each.stopping.load(Ordering::Relaxed));
    let ports = serving.map(|each| each.webhooks).collect();
    cluster.webhooks().serve(SERVICE, ports);
}

/// The logs of the replicas that run.
pub fn logs_of(running: &Running) -> Vec<String> {
    let replicas = all(running).into_iter();
    replicas.map(|each| each.process.log()).collect()
}

/// No policy refused a write of any of these replicas.
pub fn nothing_was_refused(logs: &[String]) -> Result<()> {
    for log in logs {
        let refused = log
            .lines()
            .find(|line| line.contains("ValidatingAdmissionPolicy"));
        ensure!(refused.is_none(), "{refused:?}");
    }
    Ok(())
}

/// Replaces the replicas by those of a version, one after the other. One that is being stopped is
/// watched until it has ended. Returns the logs of those that were replaced.
pub async fn roll_out(
    cluster: &Cluster,
    running: &Running,
    version: &str,
    former: Option<&Path>,
) -> Result<Vec<String>> {
    let mut logs = Vec::new();
    for turn in 0..2 {
        let new = Replica::start(cluster, &format!("{version}-{turn}"), former).await?;
        let old = {
            let mut running = running.lock();
            running.push(new);
            (running.len() > 2).then(|| running[0].clone())
        };
        if let Some(old) = &old {
            old.stopping.store(true, Ordering::Relaxed);
        }
        serve(cluster, running);
        if let Some(old) = old {
            old.stop().await?;
            running.lock().remove(0);
            logs.push(old.process.log());
        }
    }
    Ok(logs)
}

/// Checks until `stop` that no two processes lead at once, and returns how often it looked and
/// whether some process led.
pub async fn watch_leaders(running: Running, stop: CancellationToken) -> Result<(usize, usize)> {
    let (mut tick, mut looks, mut led) = (interval(Duration::from_millis(20)), 0, 0);
    while !stop.is_cancelled() {
        tick.tick().await;
        let replicas = all(&running);
        for (place, first) in replicas.iter().enumerate() {
            if !first.leads().await {
                continue;
            }
            led += 1;
            for second in replicas.iter().skip(place + 1) {
                // The first one led before and after.
                let both = second.leads().await && first.leads().await;
                let names = (first.process.name(), second.process.name());
                ensure!(!both, "both lead: {names:?}");
            }
        }
        looks += 1;
    }
    Ok((looks, led))
}

/// Waits until one of the replicas leads.
pub async fn one_leads(running: &Running) -> Result<()> {
    eventually("a replica leads", async || {
        for replica in all(running) {
            if replica.leads().await {
                return Ok(());
            }
        }
        Err(anyhow::anyhow!("none leads")).context("leaders")
    })
    .await
}
