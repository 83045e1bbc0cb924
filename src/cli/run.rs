//! `volume-warden run`: starts everything, watches over it, ends it in order.

use super::options::RunOptions;
use crate::{
    admission::{self, Certificate, Limits},
    cluster::{Apply, Elector, LeaseName, connect},
    components::{Assembly, Component, Context},
    telemetry::{Metrics, health, logs},
    tls::{Mounted, SelfSigned, install_crypto},
};
use anyhow::Context as _;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{hash::BuildHasher, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// Where a pod finds the namespace it is in.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const DEFAULT_NAMESPACE: &str = "volume-warden";
/// For the Lease's release, once everything else has ended.
const LAST_CALL: Duration = Duration::from_secs(6);

/// Runs until SIGTERM or SIGINT.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    logs::init(options.log_format);
    install_crypto();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(Process::start(options)?.run())
}

/// What this process is made of.
struct Process {
    options: RunOptions,
    components: Vec<Component>,
    system_namespace: String,
    metrics: Arc<Metrics>,
    /// The name of a task, and whether its end is the process's end.
    tasks: JoinSet<&'static str>,
    /// Asked to end.
    stop: CancellationToken,
}

impl Process {
    fn start(options: RunOptions) -> anyhow::Result<Self> {
        let components = options.components();
        let own = || {
            std::fs::read_to_string(OWN_NAMESPACE)
                .ok()
                .map(|namespace| namespace.trim().to_owned())
        };
        let system_namespace = options
            .cluster
            .system_namespace
            .clone()
            .or_else(own)
            .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        Ok(Self {
            options,
            components,
            system_namespace,
            metrics: Arc::new(Metrics::new()),
            tasks: JoinSet::new(),
            stop: CancellationToken::new(),
        })
    }

    async fn run(mut self) -> anyhow::Result<()> {
        let client = connect(self.config().await?).context("the client cannot be made")?;
        let names: Vec<_> = self
            .components
            .iter()
            .map(|component| component.name())
            .collect();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            components = names.join(","),
            dry_run = self.options.dry_run,
            "starting"
        );
        let certificate = Certificate::default();
        self.certificate(&client, &certificate).await?;
        let assembly = self.components(&client);
        self.serve(assembly, certificate).await?;
        self.watch_over().await
    }

    async fn config(&self) -> anyhow::Result<Config> {
        match &self.options.cluster.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path)
                    .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
                Ok(
                    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                        .await?,
                )
            }
            None => Config::infer().await.context(
                "there is neither a pod's service account nor a kubeconfig; see --kubeconfig",
            ),
        }
    }

    /// Mounted files are loaded before anything is served, so that a wrong mount is told at once.
    async fn certificate(
        &mut self,
        client: &Client,
        certificate: &Certificate,
    ) -> anyhow::Result<()> {
        let (certificate, metrics, stop, tls) = (
            certificate.clone(),
            self.metrics.clone(),
            self.stop.clone(),
            &self.options.tls,
        );
        if let (Some(chain), Some(key)) = (&tls.tls_cert_file, &tls.tls_key_file) {
            let files = Mounted {
                certificate: chain.clone(),
                key: key.clone(),
            };
            files.load(&certificate, &metrics).await?;
            self.task("certificate", files.follow(certificate, metrics, stop));
        } else {
            let self_signed = self.self_signed(client);
            self.task(
                "certificate",
                self_signed.follow(certificate, metrics, stop),
            );
        }
        Ok(())
    }

    fn self_signed(&self, client: &Client) -> SelfSigned {
        let (service, namespace) = (&self.options.tls.service_name, &self.system_namespace);
        SelfSigned {
            client: client.clone(),
            namespace: namespace.clone(),
            secret: self.options.tls.tls_secret_name.clone(),
            dns_names: ["", ".cluster.local"]
                .map(|domain| format!("{service}.{namespace}.svc{domain}"))
                .to_vec(),
            configurations: self
                .components
                .iter()
                .flat_map(|component| component.webhook_configurations())
                .copied()
                .collect(),
        }
    }

    fn components(&mut self, client: &Client) -> Assembly {
        let lease = self.lease_name();
        let leases = Api::namespaced(client.clone(), &lease.namespace);
        let (elector, leadership) = Elector::new(leases, lease, self.metrics.clone());
        let options = &self.options;
        let limit = options.cluster.max_in_flight.into();
        let apply = Arc::new(Apply::new(
            client.clone(),
            leadership.clone(),
            limit,
            options.dry_run,
            self.metrics.clone(),
        ));
        let context = Context {
            client: client.clone(),
            namespace: options.namespace(),
            exempt: vec!["kube-system".into(), self.system_namespace.clone()],
            finished_pods: options.protection.finished_pods,
            apply,
            leadership,
            metrics: self.metrics.clone(),
        };
        let assembly = Assembly::new(&self.components, context, &self.stop);
        let stop = self.stop.clone();
        self.task("leader election", elector.run(stop));
        assembly
    }

    fn lease_name(&self) -> LeaseName {
        let lease = &self.options.lease;
        LeaseName {
            namespace: lease
                .lease_lock_namespace
                .clone()
                .unwrap_or_else(|| self.system_namespace.clone()),
            name: self.options.lease_lock_name(),
            identity: lease.lease_lock_id.clone().unwrap_or_else(identity),
        }
    }

    async fn serve(
        &mut self,
        mut assembly: Assembly,
        certificate: Certificate,
    ) -> anyhow::Result<()> {
        let (webhooks, plain) = (
            self.options.server.webhook_address,
            self.options.server.metrics_address,
        );
        let https = TcpListener::bind(webhooks)
            .await
            .with_context(|| format!("cannot listen on {webhooks}"))?;
        let http = TcpListener::bind(plain)
            .await
            .with_context(|| format!("cannot listen on {plain}"))?;

        let (stopping, served, unlisted) =
            (self.stop.clone(), certificate.clone(), assembly.missing());
        let missing = move || {
            let mut missing = unlisted();
            missing.extend(
                served
                    .load()
                    .is_none()
                    .then(|| "there is no certificate yet".to_owned()),
            );
            missing.extend(stopping.is_cancelled().then(|| "stopping".to_owned()));
            missing
        };
        let hooks = std::mem::take(&mut assembly.hooks);
        let router = admission::router(
            hooks,
            &admission::Options {
                dry_run: self.options.dry_run,
                metrics: self.metrics.clone(),
            },
        );
        let (metrics, stop) = (self.metrics.clone(), self.stop.clone());
        self.task(
            "webhooks",
            admission::serve(
                https,
                certificate,
                router,
                Limits::default(),
                metrics.clone(),
                stop,
            ),
        );
        for (kind, watch) in assembly.watches() {
            self.endless(kind, watch);
        }
        for reconciler in assembly.reconcilers() {
            self.task("reconciler", reconciler);
        }
        self.endless("metrics", async move {
            let outcome =
                health::serve(http, metrics, Arc::new(missing), CancellationToken::new()).await;
            tracing::error!(?outcome, "the metrics server ended");
        });
        Ok(())
    }

    /// A task that ends with `stop`.
    fn task(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(async move {
            task.await;
            name
        });
    }

    /// A task that is cut off with `stop`, once nothing else needs it.
    fn endless(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.task(name, async move {
            tokio::select! {
                () = task => {}
                () = async { stop.cancelled().await; tokio::time::sleep(Limits::default().lame_duck).await } => {}
            }
        });
    }

    /// Ends when asked to; or when a task ends that should not, because a process that only looks alive is worse than none.
    async fn watch_over(mut self) -> anyhow::Result<()> {
        let (mut terminate, mut interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let failed = tokio::select! {
            _ = terminate.recv() => None,
            _ = interrupt.recv() => None,
            Some(ended) = self.tasks.join_next() => Some(ended.unwrap_or("a task, by a panic,")),
        };
        tracing::info!("stopping");
        self.stop.cancel();
        let limits = Limits::default();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(limits.lame_duck + limits.drain + LAST_CALL, all);
        tokio::select! {
            _ = in_time => {}
            // Asked twice: at once.
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        match failed {
            Some(task) => anyhow::bail!("{task} ended although nobody asked it to"),
            None => Ok(()),
        }
    }
}

/// Unique to this process. The random part tells two containers of one pod, or a process from its predecessor with the same pid.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let random = std::collections::hash_map::RandomState::new().hash_one(std::process::id());
    format!("{}_{}_{random:x}", host.trim(), std::process::id())
}
