//! The serving certificate, the client CAs and the secret path of the webhooks. Tasks keep them up
//! to date; the replica is not ready before it has a certificate and, if a component has a
//! webhook, the path.

use super::tasks::Tasks;
use crate::{
    admission::{PathPublisher, PathSettings, SecretPaths},
    cli::options::tls::TlsOptions,
    clock::Clock,
    cluster::{Apply, Configuration, Configurations, LeaseName, LeaseObject, ServiceName},
    telemetry::Metrics,
    tls::{
        Clients, Loaded, Mounted, SelfSigned, ServingCertificate, Settings, Source as _, Warnings,
        check_trust,
    },
};
use kube::Client;
use std::sync::Arc;

/// The certificate and the paths that the servers use. Tasks keep both up to date.
#[derive(Clone)]
pub(super) struct ServingHandles {
    pub(super) serving: ServingCertificate,
    /// The secret URL paths: only a request with one of them is accepted as a review.
    pub(super) paths: SecretPaths,
    path_is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl ServingHandles {
    /// What this replica still lacks to be ready: a certificate that the webhook configurations
    /// trust, or the secret path. Empty when it lacks neither.
    pub(super) fn not_ready_reasons(&self) -> Vec<String> {
        let mut not_ready_reasons = self.serving.not_ready_reasons();
        if !(self.path_is_ready)() {
            not_ready_reasons.push("the secret path of the webhooks is not known yet".to_owned());
        }
        not_ready_reasons
    }
}

/// The source of the certificate, the client CAs and the settings of the secret path, before the
/// tasks run that reload them.
pub(super) struct ServingSetup {
    serving: ServingCertificate,
    source: Source,
    clients: Option<Loaded<Clients>>,
    path: PathSettings,
}

enum Source {
    Mounted(Loaded<Mounted>),
    SelfSigned(Settings),
}

impl ServingSetup {
    /// Loads the mounted files, if there are any, so that a wrong mount is reported at start. A
    /// self-signed certificate is loaded by the task that [`Self::follow`] starts.
    pub(super) async fn load(
        options: &TlsOptions,
        (client, namespace): (&Client, &str),
        configurations: Vec<Configuration>,
        metrics: &Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let serving = ServingCertificate::new(metrics, Clock::system());
        let path = PathSettings {
            client: client.clone(),
            secret: options.webhook_path_secret.clone(),
            service: ServiceName {
                namespace: namespace.to_owned(),
                name: options.service_name.clone(),
            },
            configurations,
            rotation: options.rotation(),
            metrics: metrics.clone(),
            clock: Clock::system(),
        };
        let source = match options.mounted() {
            Some(files) => Source::Mounted(files.load(&serving).await?),
            None => Source::SelfSigned(Settings {
                client: client.clone(),
                secret: options.secret_name()?,
                service: path.service.clone(),
                configurations: path.configurations.clone(),
                lifetimes: options.lifetimes()?,
            }),
        };
        let clients = match options.clients() {
            Some(clients) => Some(clients.load(&serving).await?),
            None => None,
        };
        Ok(Self {
            serving,
            source,
            clients,
            path,
        })
    }

    /// Starts the tasks that keep the certificate, the client CAs and the path up to date. Those
    /// of the certificate publish Events about failures through `apply`.
    pub(super) fn follow(
        self,
        tasks: &mut Tasks,
        apply: Arc<Apply>,
        lease: LeaseName,
    ) -> ServingHandles {
        let (serving, stop) = (self.serving, tasks.stop.clone());
        if let Some(clients) = self.clients {
            let follow = clients.follow(serving.clone(), stop.clone());
            tasks.spawn("client CAs", follow);
        }
        let path = self.path;
        let (client, namespace) = (path.client.clone(), path.service.namespace.clone());
        let configurations = Configurations::new(
            client.clone(),
            path.configurations.clone(),
            path.service.clone(),
        );
        let paths = SecretPaths::default();
        // Without a component that has a webhook, the certificate serves only the metrics, and no
        // secret path is needed.
        let publisher =
            (!path.configurations.is_empty()).then(|| PathPublisher::new(path, paths.clone()));
        let front = ServingHandles {
            serving: serving.clone(),
            paths,
            path_is_ready: match &publisher {
                Some(publisher) => Arc::new(publisher.readiness()),
                None => Arc::new(|| true),
            },
        };
        if let Some(publisher) = publisher {
            tasks.spawn("webhook path", publisher.follow(stop.clone()));
        }
        let lease = LeaseObject::new(client, lease);
        match self.source {
            Source::Mounted(files) => {
                let source = files.file().display().to_string();
                let warnings = Warnings::new(apply, lease, &source);
                let follow = files.follow(serving.clone(), stop.clone());
                tasks.spawn("certificate", follow);
                tasks.spawn(
                    "caBundle",
                    check_trust(serving, configurations, warnings, stop),
                );
            }
            Source::SelfSigned(settings) => {
                let source = format!("the Secret {namespace}/{}", settings.secret);
                let warnings = Warnings::new(apply, lease, &source);
                let follow = SelfSigned::new(settings, serving).follow(warnings, stop);
                tasks.spawn("certificate", follow);
            }
        }
        front
    }
}
