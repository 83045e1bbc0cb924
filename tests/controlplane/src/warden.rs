//! Volume Warden as a process outside of the cluster.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::cluster::Cluster;
use crate::connect_proxy::Webhooks;
use crate::eventually::eventually_within;
use crate::process::Process;
use crate::refusals::Refusals;
use crate::util::{free_ports, on_core};

const NAMESPACE: &str = "volume-warden";
const SERVICE_ACCOUNT: &str = "volume-warden";
const SERVICE: &str = "volume-warden";
const START_TIMEOUT: Duration = Duration::from_secs(300);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const HTTP_TIMEOUT: Duration = Duration::from_secs(30);
/// The time after which the servers of probes and metrics close a connection on which no request
/// has arrived.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts a [`Warden`].
#[derive(Debug)]
#[must_use = "nothing starts before `start`"]
pub struct WardenBuilder<'a> {
    cluster: &'a Cluster,
    binary: PathBuf,
    name: String,
    namespace: String,
    arguments: Vec<String>,
    kubeconfig: Option<PathBuf>,
    serving: bool,
    quiet: bool,
    core: Option<usize>,
}

impl WardenBuilder<'_> {
    /// The name of the process and of its log; `warden` by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The namespace of the service account and of the Service; `volume-warden` by default.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        // The program knows its namespace only in a pod.
        let argument = format!("--system-namespace={}", self.namespace);
        self.arg(argument)
    }

    /// One more argument of `run`.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Replaces the default kubeconfig, which is that of the service account in the manifests.
    pub fn kubeconfig(mut self, path: impl AsRef<Path>) -> Self {
        self.kubeconfig = Some(path.as_ref().to_owned());
        self
    }

    /// Makes the process a backend of the Service that the webhook configurations name, until the
    /// [`Warden`] is dropped.
    pub fn serving(mut self) -> Self {
        self.serving = true;
        self
    }

    /// Uses the default log level instead of the detailed one of tests.
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Runs the process on this core only.
    pub fn on_core(mut self, core: usize) -> Self {
        self.core = Some(core);
        self
    }

    /// Starts the process, and returns when it is ready.
    pub async fn start(self) -> Result<Warden> {
        let kubeconfig = match self.kubeconfig {
            Some(path) => path,
            None => {
                self.cluster
                    .service_account_kubeconfig(&self.namespace, SERVICE_ACCOUNT, None)
                    .await?
            }
        };
        let [webhook_port, metrics_port, probe_port] = free_ports()?;
        let mut command = on_core(&self.binary, self.core);
        command
            .arg("run")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args([
                "--webhook-bind-address",
                &format!("127.0.0.1:{webhook_port}"),
            ])
            .args([
                "--metrics-bind-address",
                &format!("127.0.0.1:{metrics_port}"),
            ])
            .args(["--probe-bind-address", &format!("127.0.0.1:{probe_port}")])
            // Tests set longer timeouts than the manifests, unless they are about time.
            .args(["--max-webhook-timeout", "30s"])
            // An argument takes precedence.
            .env("VOLUME_WARDEN_LOG_FORMAT", "text")
            .args(self.arguments);
        if !self.quiet {
            command.env("RUST_LOG", "info,volume_warden=debug");
        }
        let process = self.cluster.spawn(&self.name, command)?;
        let service = format!("{SERVICE}.{}.svc", self.namespace);
        let route = self
            .serving
            .then(|| Route::add(self.cluster.webhooks(), service, webhook_port));
        let warden = Warden {
            _refusals: Refusals::watch(process.log_path()),
            process,
            webhook_port,
            metrics_port,
            probe_port,
            _route: route,
        };
        warden.started().await?;
        Ok(warden)
    }
}

/// A running Volume Warden. Dropping it kills it.
#[derive(Debug)]
pub struct Warden {
    process: Process,
    webhook_port: u16,
    metrics_port: u16,
    probe_port: u16,
    _route: Option<Route>,
    /// Dropped after the process, so that it reads the whole log.
    _refusals: Refusals,
}

impl Warden {
    /// A Volume Warden that works for `cluster`, from the executable `binary`.
    pub fn builder(cluster: &Cluster, binary: impl AsRef<Path>) -> WardenBuilder<'_> {
        WardenBuilder {
            cluster,
            binary: binary.as_ref().to_owned(),
            name: "warden".to_owned(),
            namespace: NAMESPACE.to_owned(),
            arguments: vec![],
            kubeconfig: None,
            serving: false,
            quiet: false,
            core: None,
        }
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The port of the webhooks, on 127.0.0.1.
    pub fn webhook_port(&self) -> u16 {
        self.webhook_port
    }

    /// The port of the metrics, on 127.0.0.1.
    pub fn metrics_port(&self) -> u16 {
        self.metrics_port
    }

    /// The port that `volume-warden probe` uses, on 127.0.0.1.
    pub fn probe_port(&self) -> u16 {
        self.probe_port
    }

    /// The metrics, as text.
    pub async fn metrics(&self) -> Result<String> {
        let (status, body) = http_get(self.metrics_port, "/metrics").await?;
        ensure!(status == 200, "/metrics answered {status}: {body}");
        Ok(body)
    }

    /// The number of objects that the component has queued or is reconciling.
    pub async fn queued(&self, component: &str) -> Result<usize> {
        let metrics = self.metrics().await?;
        let series = format!("volume_warden_queue_depth{{component=\"{component}\"}} ");
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(&series));
        Ok(value.context("the component has no queue")?.parse()?)
    }

    /// Whether `/readyz` answers 200.
    ///
    /// # Errors
    /// When there is no answer, for example because the process has ended.
    pub async fn ready(&self) -> Result<bool> {
        Ok(self.readiness().await? == 200)
    }

    /// The status that `/readyz` answers.
    ///
    /// # Errors
    /// When there is no answer, for example because the process has ended.
    pub async fn readiness(&self) -> Result<u16> {
        let (status, _) = http_get(self.probe_port, "/readyz").await?;
        Ok(status)
    }

    /// Sends SIGTERM, and waits until the process has ended.
    pub async fn stop(self) -> Result<ExitStatus> {
        self.process.terminate()?;
        self.process.wait(STOP_TIMEOUT).await
    }

    async fn started(&self) -> Result<()> {
        let what = format!("{} is ready", self.process.name());
        let ready = eventually_within(START_TIMEOUT, &what, async || {
            // If the process has ended, the wait ends with its error.
            if let Err(ended) = self.process.ensure_running() {
                return Ok(Some(Err(ended)));
            }
            let (status, body) = http_get(self.probe_port, "/readyz").await?;
            ensure!(status == 200, "/readyz answered {status}: {body}");
            Ok(Some(Ok(())))
        });
        ready.await?
    }
}

/// A backend of the Service, removed when dropped.
#[derive(Debug)]
struct Route {
    webhooks: Webhooks,
    service: String,
    port: u16,
}

impl Route {
    fn add(webhooks: &Webhooks, service: String, port: u16) -> Self {
        webhooks.add(&service, port);
        Self {
            webhooks: webhooks.clone(),
            service,
            port,
        }
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        self.webhooks.remove(&self.service, self.port);
    }
}

/// Status and body of a GET on loopback.
async fn http_get(port: u16, path: &str) -> Result<(u16, String)> {
    let exchange = async {
        loop {
            let began = Instant::now();
            let answer = get(port, path).await;
            let answered = answer.as_ref().is_ok_and(|answer| !answer.is_empty());
            // The server closes a connection whose request comes late, which a busy machine causes.
            if answered || began.elapsed() < HEAD_TIMEOUT {
                return answer;
            }
        }
    };
    let answer = timeout(HTTP_TIMEOUT, exchange)
        .await
        .with_context(|| format!("GET {path} took too long"))??;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("an answer without a head")?;
    let status = head
        .split_whitespace()
        .nth(1)
        .context("an answer without a status")?;
    Ok((status.parse()?, body.to_owned()))
}

/// Everything that the server sends in answer to a GET; nothing if it closes the connection.
async fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    // HTTP/1.0: the body is not chunked and ends with the connection.
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())
        .await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
