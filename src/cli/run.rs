//! `volume-warden run`: starts everything, watches over it, ends it in order.

use super::{options::RunOptions, tasks::Tasks};
use crate::{
    admission::{self, Certificate, Limits},
    assembly::{Assembly, Context},
    cluster::{Apply, Elector, LeaseName},
    components::Component,
    listener::Listener,
    namespace_gc::Collecting,
    telemetry::{Metrics, health, logs},
    tls::{Mounted, SelfSigned, install_crypto},
};
use anyhow::Context as _;
use kube::{Api, Client};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpListener;

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
    lease: LeaseName,
    metrics: Arc<Metrics>,
    tasks: Tasks,
}

struct Sockets {
    /// Not where no component has a webhook.
    https: Option<TcpListener>,
    http: Listener,
}

impl Process {
    fn start(options: RunOptions) -> anyhow::Result<Self> {
        let components = options.components();
        let system_namespace = options.cluster.system_namespace();
        let id = &options.controller.controller_id;
        let lease = options
            .lease
            .name(&system_namespace, &components, id, options.dry_run)?;
        Ok(Self {
            options,
            components,
            system_namespace,
            lease,
            metrics: Arc::new(Metrics::new()),
            tasks: Tasks::new(),
        })
    }

    async fn run(mut self) -> anyhow::Result<()> {
        let client = self.options.cluster.client().await?;
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
        // First of all: a process that cannot serve must not win the Lease either.
        let sockets = self.listen().await?;
        let certificate = Certificate::default();
        if self.has_webhooks() {
            self.certificate(&client, &certificate).await?;
        }
        let collecting = self.collecting().await?;
        let assembly = self.components(&client, collecting);
        self.serve(sockets, assembly, certificate);
        let limits = Limits::default();
        self.tasks
            .watch_over(limits.lame_duck + limits.drain + LAST_CALL)
            .await
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
            self.tasks.stop.clone(),
            &self.options.tls,
        );
        if let (Some(chain), Some(key)) = (&tls.tls_cert_file, &tls.tls_key_file) {
            let files = Mounted {
                certificate: chain.clone(),
                key: key.clone(),
            };
            files.load(&certificate, &metrics).await?;
            self.tasks
                .spawn("certificate", files.follow(certificate, metrics, stop));
        } else {
            let self_signed = self.self_signed(client);
            self.tasks.spawn(
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

    fn has_webhooks(&self) -> bool {
        let mut components = self.components.iter();
        components.any(|component| !component.webhook_configurations().is_empty())
    }

    /// A root that is none is told at once. A backend that is down is waited for.
    async fn collecting(&self) -> anyhow::Result<Option<Collecting>> {
        let options = &self.options;
        if !self.components.contains(&Component::NamespaceGc) {
            return Ok(None);
        }
        let Some(backend) = options.backend.backend().await? else {
            return Ok(None);
        };
        let chosen = options
            .collecting
            .collecting(&options.backend, options.dry_run);
        Ok(Some(Collecting {
            backend,
            options: Arc::new(options.period.repeated(chosen)),
            lease: self.lease.clone(),
            system_namespace: self.system_namespace.clone(),
        }))
    }

    fn components(&mut self, client: &Client, collecting: Option<Collecting>) -> Assembly {
        let lease = self.lease.clone();
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
        let id = &options.controller.controller_id;
        let context = Context {
            client: client.clone(),
            namespace: options.cluster.namespace(),
            exempt: vec!["kube-system".into(), self.system_namespace.clone()],
            finished_pods: options.protection.finished_pods,
            provisioning: Arc::new(options.provisioner.provisioning(id)),
            releasing: options.releaser.releasing(id),
            collecting,
            apply,
            leadership,
            metrics: self.metrics.clone(),
        };
        let assembly = Assembly::new(&self.components, context, &self.tasks.stop);
        let stop = self.tasks.stop.clone();
        self.tasks.spawn("leader election", elector.run(stop));
        assembly
    }

    async fn listen(&self) -> anyhow::Result<Sockets> {
        let server = &self.options.server;
        let cannot = |address: SocketAddr| move || format!("cannot listen on {address}");
        let (https, http) = (server.webhook_address, server.metrics_address);
        let https = match self.has_webhooks() {
            true => Some(TcpListener::bind(https).await.with_context(cannot(https))?),
            false => None,
        };
        Ok(Sockets {
            https,
            http: Listener::bind(http, health::CONNECTIONS)
                .await
                .with_context(cannot(http))?,
        })
    }

    fn serve(&mut self, sockets: Sockets, mut assembly: Assembly, certificate: Certificate) {
        let missing = self.missing(&assembly, &certificate);
        let (metrics, stop) = (self.metrics.clone(), self.tasks.stop.clone());
        let options = admission::Options {
            dry_run: self.options.dry_run,
            metrics: metrics.clone(),
        };
        let router = admission::router(std::mem::take(&mut assembly.hooks), &options);
        let limits = Limits::default();
        // The webhooks are answered from the watches, and probed, to the end of their lame duck.
        let needed = limits.lame_duck;
        if let Some(https) = sockets.https {
            let metrics = metrics.clone();
            let server = admission::serve(https, certificate, router, limits, metrics, stop);
            self.tasks.spawn("the webhook server", server);
        }
        for (kind, watch) in assembly.watches() {
            self.tasks.spawn_endless(kind, needed, watch);
        }
        for reconciler in assembly.reconcilers() {
            self.tasks.spawn("a reconciler", reconciler);
        }
        let probes = health::serve(sockets.http, metrics, missing);
        self.tasks
            .spawn_endless("the metrics server", needed, probes);
    }

    /// What keeps this replica from being ready.
    fn missing(&self, assembly: &Assembly, certificate: &Certificate) -> health::Missing {
        let (unlisted, certificate, stop) = (
            assembly.missing(),
            self.has_webhooks().then(|| certificate.clone()),
            self.tasks.stop.clone(),
        );
        Arc::new(move || {
            let mut missing = unlisted();
            let absent = certificate
                .as_ref()
                .is_some_and(|certificate| certificate.load().is_none());
            missing.extend(absent.then(|| "there is no certificate yet".to_owned()));
            missing.extend(stop.is_cancelled().then(|| "stopping".to_owned()));
            missing
        })
    }
}
