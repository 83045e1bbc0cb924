//! Replicas of both versions behind the Service, and a check that at most one of them leads.

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
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A process of version 0.1.0 or of this version.
pub struct Replica {
    process: Process,
    webhook_port: u16,
    metrics_port: u16,
    /// Whether the replica is being stopped, and so receives no reviews. It may still lead.
    stopping: AtomicBool,
}

/// The replicas that run, in the order of their start.
pub type RunningReplicas = Arc<Mutex<Vec<Arc<Replica>>>>;

impl Replica {
    /// Starts a replica as the Deployment would, and waits until it is ready. `old_binary` is
    /// that of version 0.1.0; without it, the replica is of this version.
    pub async fn start(
        cluster: &Cluster,
        name: &str,
        old_binary: Option<&Path>,
    ) -> Result<Arc<Self>> {
        let account = cluster.service_account_kubeconfig(NAMESPACE, NAMESPACE, None);
        let mut command = Command::new(old_binary.unwrap_or(Path::new(BINARY)));
        let [webhook_port, metrics_port, probe_port] = free_ports()?;
        let local = |port: u16| format!("127.0.0.1:{port}");
        command.arg("run").arg("--kubeconfig").arg(account.await?);
        command.args(arguments(cluster, NAMESPACE).await?);
        let flags = match old_binary {
            Some(_) => ["--webhook-address", "--metrics-address"],
            None => ["--webhook-bind-address", "--metrics-bind-address"],
        };
        let [webhooks, metrics] = [webhook_port, metrics_port].map(local);
        command.args([flags[0], &webhooks, flags[1], &metrics]);
        if old_binary.is_none() {
            command.args(["--probe-bind-address", &local(probe_port)]);
        }
        let replica = Arc::new(Self {
            process: cluster.spawn(name, command)?,
            webhook_port,
            metrics_port,
            stopping: AtomicBool::new(false),
        });
        eventually(&format!("{name} is ready"), async || {
            ensure!(replica.process.is_running(), "{}", replica.process.log());
            let response = get(metrics_port, "/readyz").await?;
            let status = response.split_whitespace().nth(1);
            ensure!(status == Some("200"), "{response}");
            Ok(())
        })
        .await?;
        Ok(replica)
    }

    /// Terminates the process as a rollout does, and waits until it has exited.
    async fn stop(&self) -> Result<()> {
        self.process.terminate()?;
        let status = self.process.wait(STOP_TIMEOUT).await?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    async fn leads(&self) -> bool {
        let metrics = get(self.metrics_port, "/metrics").await.unwrap_or_default();
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
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        anyhow::Ok(response)
    };
    timeout(Duration::from_secs(5), exchange).await?
}

fn snapshot(running: &RunningReplicas) -> Vec<Arc<Replica>> {
    let running = running.lock();
    running.clone()
}

/// Makes the replicas that are not being stopped the backends of the Service.
fn serve(cluster: &Cluster, running: &RunningReplicas) {
    let replicas = snapshot(running).into_iter();
    let serving = replicas.filter(|each| !each.stopping.load(Ordering::Relaxed));
    let ports = serving.map(|each| each.webhook_port).collect();
    cluster.webhooks().serve(SERVICE, ports);
}

/// The logs of the replicas that run.
pub fn logs_of(running: &RunningReplicas) -> Vec<String> {
    let replicas = snapshot(running).into_iter();
    replicas.map(|each| each.process.log()).collect()
}

/// Checks that no ValidatingAdmissionPolicy refused a write of the replicas with these logs.
pub fn no_policy_refused_a_write(logs: &[String]) -> Result<()> {
    for log in logs {
        let refused = log
            .lines()
            .find(|line| line.contains("ValidatingAdmissionPolicy"));
        ensure!(refused.is_none(), "{refused:?}");
    }
    Ok(())
}

/// Replaces the replicas one after the other: by version 0.1.0 with `old_binary`, otherwise by this
/// version. A replica that is being stopped remains in `running` until its process has exited.
/// Returns the logs of the replaced replicas.
pub async fn roll_out(
    cluster: &Cluster,
    running: &RunningReplicas,
    version: &str,
    old_binary: Option<&Path>,
) -> Result<Vec<String>> {
    let mut logs = Vec::new();
    for index in 0..2 {
        let new = Replica::start(cluster, &format!("{version}-{index}"), old_binary).await?;
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

/// Checks until `stop` that no two replicas lead at the same time. Returns the number of checks,
/// and how often a replica led.
pub async fn watch_leaders(
    running: RunningReplicas,
    stop: CancellationToken,
) -> Result<(usize, usize)> {
    let (mut tick, mut checks, mut led) = (interval(Duration::from_millis(20)), 0, 0);
    while !stop.is_cancelled() {
        tick.tick().await;
        let replicas = snapshot(&running);
        for (index, first) in replicas.iter().enumerate() {
            if !first.leads().await {
                continue;
            }
            led += 1;
            for second in replicas.iter().skip(index + 1) {
                // `first` leads before and after `second`, so both lead at the same time.
                let both = second.leads().await && first.leads().await;
                let names = (first.process.name(), second.process.name());
                ensure!(!both, "both lead: {names:?}");
            }
        }
        checks += 1;
    }
    Ok((checks, led))
}

/// Waits until one of the replicas leads.
pub async fn a_replica_leads(running: &RunningReplicas) -> Result<()> {
    eventually("a replica leads", async || {
        for replica in snapshot(running) {
            if replica.leads().await {
                return Ok(());
            }
        }
        Err(anyhow::anyhow!("no replica leads")).context("leaders")
    })
    .await
}
