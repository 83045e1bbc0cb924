//! A running control plane.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::access::client_config;
use crate::audit::AuditLog;
use crate::binaries::Binaries;
use crate::bootstrap::Files;
use crate::builder::{ClusterBuilder, Options};
use crate::component::{CommandLine, Component, command_lines};
use crate::connect_proxy::{ConnectProxy, Webhooks};
use crate::directory::{Directory, keeps_logs};
use crate::eventually::eventually;
use crate::guardian::Guardian;
use crate::process::Process;
use crate::provisioned::Provisioned;
use crate::util::lock;

/// A running control plane on loopback.
///
/// A cluster belongs to no tokio runtime, so tests may share one through a `static`. Its processes
/// end when it is dropped, and also when this process ends without dropping it, see [`Guardian`].
/// Its directory is deleted with it, unless the thread panics or `VOLUME_WARDEN_KEEP_LOGS` is set.
/// The directory of a cluster in a `static`, which is never dropped, is deleted by the next run of
/// the same program.
///
/// The fields are in the order of shutdown: the components, their guardian, the directories of
/// volumes, the directory of the cluster.
#[derive(Debug)]
pub struct Cluster {
    components: Mutex<BTreeMap<Component, Arc<Process>>>,
    commands: BTreeMap<Component, CommandLine>,
    proxy: ConnectProxy,
    pub(crate) guardian: Guardian,
    pub(crate) binaries: Binaries,
    pub(crate) files: Files,
    pub(crate) config: kube::Config,
    url: String,
    _provisioned: Option<Provisioned>,
    directory: Directory,
}

impl Cluster {
    /// A cluster with Kubernetes' defaults and the host-path provisioner, for comparison with
    /// Volume Warden.
    pub fn in_tree() -> ClusterBuilder {
        ClusterBuilder::in_tree()
    }

    /// A cluster without the built-in controllers that Volume Warden replaces, so that they cannot
    /// make its tests pass.
    pub fn without_in_tree() -> ClusterBuilder {
        ClusterBuilder::without_in_tree()
    }

    /// A cluster of etcd and kube-apiserver only, which starts in half of the CPU time. Nothing
    /// creates service accounts, binds claims, runs pods or ends namespaces.
    pub fn api_server() -> ClusterBuilder {
        ClusterBuilder::api_server()
    }

    /// A cluster whose components have not started: [`crate::bootstrap::bring_up`] starts them.
    pub(crate) async fn create(binaries: &Binaries, options: &Options) -> Result<Self> {
        let directory = Directory::create(&options.name)?;
        let files = Files::prepare(&directory)?;
        let config = client_config(&files.admin_kubeconfig).await?;
        let audit_log = Some(&*files.audit_log).filter(|_| !keeps_logs());
        let guardian = Guardian::of_cluster(&files.etcd_data, audit_log.unwrap_or(Path::new("")))?;
        Ok(Self {
            components: Mutex::default(),
            commands: command_lines(binaries, &files, options),
            proxy: ConnectProxy::start(&files.proxy_socket, config.clone())?,
            guardian,
            binaries: binaries.clone(),
            config,
            url: files.url(),
            _provisioned: audit_log.map(Provisioned::by),
            files,
            directory,
        })
    }

    /// The address of the API server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The directory of the cluster, with its logs.
    pub fn dir(&self) -> &Path {
        self.directory.path()
    }

    /// An admin's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.files.admin_kubeconfig
    }

    /// The kubectl binary of this control plane.
    pub fn kubectl_binary(&self) -> PathBuf {
        self.binaries.path("kubectl")
    }

    /// The backends of Services.
    pub fn webhooks(&self) -> &Webhooks {
        self.proxy.webhooks()
    }

    /// The API server's audit log.
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(&self.files.audit_log)
    }

    /// The output of a component so far.
    pub fn log(&self, component: Component) -> String {
        self.process(component)
            .map(|process| process.log())
            .unwrap_or_default()
    }

    /// The current process of a component.
    pub fn process(&self, component: Component) -> Result<Arc<Process>> {
        let process = lock(&self.components).get(&component).cloned();
        process.with_context(|| format!("{} was not started yet", component.name()))
    }

    /// Starts another process, which ends with the cluster. Its output is written to
    /// `<dir>/<name>.log`.
    pub fn spawn(&self, name: &str, command: Command) -> Result<Process> {
        self.guardian
            .spawn(name, command, &self.dir().join(format!("{name}.log")))
    }

    /// The process group that ends with the cluster, for children that a test starts itself.
    pub fn group(&self) -> i32 {
        self.guardian.group()
    }

    /// Pauses a component with SIGSTOP: it keeps its connections and does not answer.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.process(component)?.pause()
    }

    /// Resumes a paused component.
    pub fn resume(&self, component: Component) -> Result<()> {
        self.process(component)?.resume()
    }

    /// Kills a component with SIGKILL; its port and its data stay for [`Cluster::restart`].
    pub fn kill(&self, component: Component) -> Result<()> {
        self.process(component)?.kill().map(drop)
    }

    /// Starts a component again with its original command line, and kills it first if it is
    /// running. After etcd or the API server it waits until the API server is ready.
    pub async fn restart(&self, component: Component) -> Result<()> {
        self.kill(component)?;
        self.launch(component)?;
        match component {
            Component::Etcd | Component::Apiserver => self.apiserver_ready().await,
            _ => Ok(()),
        }
    }

    /// Stops the cluster without blocking the runtime.
    pub async fn stop(self) {
        // Fails only if the drop panicked.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    pub(crate) fn command(&self, component: Component) -> Result<Command> {
        let command = self.commands.get(&component);
        let command = command.context("every component has a command line")?;
        Ok(command.command())
    }

    /// The components that are clients of the API server.
    pub fn controllers(&self) -> Vec<Component> {
        let servers = [Component::Etcd, Component::Apiserver];
        let all = self.commands.keys().copied();
        all.filter(|component| !servers.contains(component))
            .collect()
    }

    pub(crate) fn launch(&self, component: Component) -> Result<()> {
        let process = self.spawn(component.name(), self.command(component)?)?;
        lock(&self.components).insert(component, Arc::new(process));
        Ok(())
    }

    pub(crate) async fn etcd_ready(&self) -> Result<()> {
        let url = format!("http://127.0.0.1:{}", self.files.ports.etcd);
        let client = kube::Client::try_from(kube::Config::new(url.parse()?))?;
        eventually("etcd is ready", async || {
            let health = client.request_text(http_get("/health")?).await?;
            anyhow::Ok(health.contains(r#""health":"true""#))
        })
        .await
    }

    pub(crate) async fn apiserver_ready(&self) -> Result<()> {
        let client = self.try_client()?;
        eventually("the API server is ready", async || {
            let request = http_get("/readyz")?;
            anyhow::Ok(client.request_text(request).await? == "ok")
        })
        .await
    }

    /// Waits for a condition that can no longer become true once a component has ended.
    pub(crate) async fn unless_one_ends<T>(
        &self,
        wait: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::select! {
            done = wait => done,
            ended = self.one_ends() => Err(ended),
        }
    }

    async fn one_ends(&self) -> anyhow::Error {
        loop {
            let all: Vec<_> = lock(&self.components).values().cloned().collect();
            if let Some(error) = all
                .iter()
                .find_map(|process| process.ensure_running().err())
            {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) fn any_log_contains(&self, text: &str) -> bool {
        lock(&self.components)
            .values()
            .any(|process| process.log().contains(text))
    }

    pub(crate) fn keep_logs(&self) {
        self.directory.keep();
    }
}

fn http_get(path: &str) -> Result<axum::http::Request<Vec<u8>>> {
    Ok(axum::http::Request::get(path).body(vec![])?)
}
