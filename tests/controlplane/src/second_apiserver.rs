//! A second API server, as in a highly available control plane.

use anyhow::Result;
use kube::Client;

use crate::cluster::Cluster;
use crate::component::Component;
use crate::eventually::eventually;
use crate::process::Process;
use crate::util::free_ports;

/// Another kube-apiserver on the cluster's etcd. Dropping it kills it.
#[derive(Debug)]
pub struct SecondApiserver {
    process: Process,
    config: kube::Config,
}

impl SecondApiserver {
    /// Starts an API server with the command line of the first one, with its own port and audit
    /// log, and returns when it is ready.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let [port] = free_ports()?;
        let mut command = cluster.command(Component::Apiserver)?;
        let audit_log = cluster.dir().join("audit-2.log");
        // kube-apiserver uses the last value of a flag that is set twice.
        command
            .arg(format!("--secure-port={port}"))
            .arg(format!("--audit-log-path={}", audit_log.display()));
        let process = cluster.spawn("kube-apiserver-2", command)?;
        let mut config = cluster.config.clone();
        config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
        let second = Self { process, config };
        let client = second.client()?;
        eventually("the second API server is ready", async || {
            second.process.ensure_running()?;
            let request = axum::http::Request::get("/readyz").body(vec![])?;
            anyhow::Ok(client.request_text(request).await? == "ok")
        })
        .await?;
        Ok(second)
    }

    /// An admin's client of this API server.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config.clone())?)
    }

    /// The process of the API server.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
