//! `volume-warden run`: starts the servers and components, supervises them, and stops them in
//! order.

mod serving;
mod tasks;

use super::{options::RunOptions, signals::Signals};
use crate::{
    admission::{self, Limits},
    assembly::{self, Assembly},
    clock::Clock,
    cluster::{Configuration, Elector, LeaseName, Tokens},
    component::{ComponentRef, Shared},
    listener,
    telemetry::{
        Metrics,
        health::{self, Authorization},
    },
    tls::{ServingCertificate, install_crypto},
    version,
};
use anyhow::Context as _;
use kube::Client;
use serving::{ServingHandles, ServingSetup};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tasks::Tasks;
use tokio::{
    net::TcpListener,
    runtime::{Builder, Handle},
};

/// Time that the shutdown timeout adds to the time that the webhook server may take to end. The
/// Lease does not wait for that server: its release begins when the shutdown begins, or when a
/// renewal that is under way has ended.
const LEASE_RELEASE: Duration = Duration::from_secs(6);

pub(super) const EXIT_CODES: &str = "Exit codes: 0 ended after SIGTERM or SIGINT; 1 failed, standard \
error states why; 2 the command line is wrong.";

/// Runs the enabled components of `all` until SIGTERM or SIGINT, or until a task ends
/// unexpectedly. Logs the `warnings` first.
pub fn run(options: RunOptions, all: &[ComponentRef], warnings: Vec<String>) -> anyhow::Result<()> {
    install_crypto();
    let runtime = || Builder::new_multi_thread().enable_all().build();
    // The webhook server has its own threads, so that a review that is answered from memory does
    // not wait for those of the watches and reconcilers. These drive the clients of the API server.
    let (runtime, reviews) = (runtime()?, runtime()?);
    #[cfg(feature = "otlp")]
    let _traces = crate::telemetry::otlp::init(options.log_format, runtime.handle())?;
    #[cfg(not(feature = "otlp"))]
    crate::telemetry::logs::init(options.log_format);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let process = Process::start(options, all, reviews.handle().clone())?;
    runtime.block_on(process.run())
}

/// The state of a `run` process from its start to its end.
struct Process {
    options: RunOptions,
    components: Vec<ComponentRef>,
    system_namespace: String,
    lease: LeaseName,
    metrics: Arc<Metrics>,
    tasks: Tasks,
    /// The runtime of the webhook server.
    reviews: Handle,
}

struct Sockets {
    /// Socket of the webhook server; `None` if no component has a webhook.
    https: Option<TcpListener>,
    metrics: TcpListener,
    probes: TcpListener,
}

impl Process {
    fn start(options: RunOptions, all: &[ComponentRef], reviews: Handle) -> anyhow::Result<Self> {
        let components = options.components.to_run(all);
        let system_namespace = options.cluster.system_namespace();
        let id = &options.controller.controller_id;
        let names = (&*system_namespace, &*options.tls.service_name);
        let lease = options
            .lease
            .name(names, &components, id, options.dry_run)?;
        Ok(Self {
            options,
            components,
            system_namespace,
            lease,
            metrics: Arc::new(Metrics::new()),
            tasks: Tasks::new(),
            reviews,
        })
    }

    async fn run(mut self) -> anyhow::Result<()> {
        let client = self.options.cluster.client().await?;
        let lease_client = self.options.cluster.client().await?;
        let names: Vec<_> = self
            .components
            .iter()
            .map(|component| component.name())
            .collect();
        tracing::info!(
            version = version::VERSION,
            commit = version::COMMIT,
            components = names.join(","),
            dry_run = self.options.dry_run,
            "Volume Warden starts"
        );
        // The sockets come first: a process that cannot serve must not acquire the Lease.
        let sockets = self.listen()?;
        let serving = self.serving(&client).await?;
        // The signal handlers come before the first task: a signal that ended the process directly
        // would leave the Lease held.
        let signals = Signals::new()?;
        let (shared, elector) = self.shared(&client, lease_client);
        let assembly = Assembly::new(&self.components, shared).await?;
        let stop = self.tasks.stop.clone();
        self.tasks.spawn("leader election", elector.run(stop));
        let apply = assembly.shared().apply.clone();
        let front =
            serving.map(|serving| serving.follow(&mut self.tasks, apply, self.lease.clone()));
        self.serve(sockets, assembly, &client, front);
        let limits = Limits::default();
        self.tasks
            .supervise(signals, limits.lame_duck + limits.drain + LEASE_RELEASE)
            .await
    }

    fn configurations(&self) -> Vec<Configuration> {
        let components = self.components.iter();
        let configurations = components.flat_map(|component| component.webhook_configurations());
        configurations.copied().collect()
    }

    /// Loads a mounted certificate, or prepares a self-signed one; `None` if no component has a
    /// webhook and metrics are served over plain HTTP.
    async fn serving(&self, client: &Client) -> anyhow::Result<Option<ServingSetup>> {
        let configurations = self.configurations();
        if configurations.is_empty() && !self.options.server.metrics_authorization {
            return Ok(None);
        }
        let (tls, namespace) = (&self.options.tls, self.system_namespace.as_str());
        let load = ServingSetup::load(tls, (client, namespace), configurations, &self.metrics);
        load.await.map(Some)
    }

    fn shared(&self, client: &Client, lease_client: Client) -> (Shared, Elector) {
        let options = &self.options;
        let settings = assembly::Settings {
            flags: options.component_flags.0.clone(),
            client: client.clone(),
            lease_client,
            namespace: options.cluster.namespace(),
            system_namespace: self.system_namespace.clone(),
            exempt: options.server.exempt_namespaces(),
            controller_id: options.controller.controller_id.clone(),
            dry_run: options.dry_run,
            max_in_flight: options.cluster.max_in_flight.into(),
            lease: self.lease.clone(),
            clock: Clock::system(),
            metrics: self.metrics.clone(),
            stop: self.tasks.stop.clone(),
        };
        settings.share()
    }

    fn listen(&self) -> anyhow::Result<Sockets> {
        let server = &self.options.server;
        let cannot = |address: SocketAddr| move || format!("cannot listen on {address}");
        let bind = |address| listener::bind(address).with_context(cannot(address));
        let https = if !self.configurations().is_empty() {
            let _runtime = self.reviews.enter();
            Some(bind(server.webhook_bind_address)?)
        } else {
            None
        };
        Ok(Sockets {
            https,
            metrics: bind(server.metrics_bind_address)?,
            probes: bind(server.probes.probe_bind_address)?,
        })
    }

    fn serve(
        &mut self,
        sockets: Sockets,
        mut assembly: Assembly,
        client: &Client,
        front: Option<ServingHandles>,
    ) {
        let serving = front.as_ref().map(|front| &front.serving);
        let authorization = self.authorization(client, serving);
        let not_ready_reasons = self.not_ready_reasons(&assembly, front.clone());
        let (metrics, stop) = (self.metrics.clone(), self.tasks.stop.clone());
        let options = admission::Options {
            dry_run: self.options.dry_run,
            longest_timeout: self.options.server.max_webhook_timeout,
            metrics: metrics.clone(),
        };
        let router = admission::router(std::mem::take(&mut assembly.webhooks), &options);
        let limits = Limits::default();
        // After `stop`, the webhooks still answer for the lame-duck period. Until its end, the
        // watches must run, from which the webhooks answer, and the probe server for the kubelet.
        let needed = limits.lame_duck;
        if let Some((https, front)) = sockets.https.zip(front) {
            let (certificate, paths) = (front.serving.certificate, front.paths);
            let metrics = metrics.clone();
            let server = admission::serve(https, certificate, router, paths, limits, metrics, stop);
            self.tasks.spawn_on(&self.reviews, "webhook server", server);
        }
        for (kind, watch) in assembly.watches() {
            self.tasks.spawn_endless(kind, needed, watch);
        }
        for task in assembly.tasks() {
            self.tasks.spawn("reconciler", task);
        }
        let probes = health::serve_probes(sockets.probes, not_ready_reasons.clone());
        self.tasks.spawn_endless("probe server", needed, probes);
        let metrics =
            health::serve_metrics(sockets.metrics, metrics, not_ready_reasons, authorization);
        self.tasks.spawn_endless("metrics server", needed, metrics);
    }

    /// Returns how clients of the metrics are authorized; `None` means that everyone may read them.
    fn authorization(
        &self,
        client: &Client,
        serving: Option<&ServingCertificate>,
    ) -> Option<Authorization> {
        let serving = serving.filter(|_| self.options.server.metrics_authorization)?;
        let tokens = Tokens::new(client.clone(), "/metrics");
        Some(Authorization {
            certificate: serving.certificate_for_all.clone(),
            authorize: Arc::new(move |token| {
                let tokens = tokens.clone();
                Box::pin(async move { tokens.authorize(token).await })
            }),
        })
    }

    /// Returns a function that lists why this replica is not ready; the list is empty when it is
    /// ready.
    fn not_ready_reasons(
        &self,
        assembly: &Assembly,
        front: Option<ServingHandles>,
    ) -> health::NotReadyReasons {
        let (unlisted, stop) = (assembly.not_ready_reasons(), self.tasks.stop.clone());
        Arc::new(move || {
            let mut not_ready_reasons = unlisted();
            not_ready_reasons.extend(front.iter().flat_map(ServingHandles::not_ready_reasons));
            not_ready_reasons.extend(
                stop.is_cancelled()
                    .then(|| "the process is stopping".to_owned()),
            );
            not_ready_reasons
        })
    }
}

#[cfg(test)]
mod tests;
