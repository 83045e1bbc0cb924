//! The certificate of this process: loaded before anything is served, and followed from then on.

use super::{tasks::Tasks, tls::TlsOptions};
use crate::{
    cluster::{Apply, LeaseName, LeaseObject},
    telemetry::Metrics,
    tls::{
        Clients, Clock, Configuration, Loaded, Mounted, SelfSigned, Service, Settings, Source as _,
        Warnings, judge,
    },
};
use kube::Client;
use std::sync::Arc;

/// See the module.
pub(super) struct Serving {
    pub(super) service: Service,
    source: Source,
    clients: Option<Loaded<Clients>>,
    client: Client,
    configurations: Vec<Configuration>,
}

enum Source {
    Mounted(Loaded<Mounted>),
    SelfSigned(Settings),
}

impl Serving {
    /// Loads what is in files, so that a wrong mount is told at once.
    pub(super) async fn load(
        options: &TlsOptions,
        (client, namespace): (&Client, &str),
        configurations: Vec<Configuration>,
        metrics: &Metrics,
    ) -> anyhow::Result<Self> {
        let service = Service::new(metrics, Clock::system());
        let source = match options.mounted() {
            Some(files) => Source::Mounted(files.load(&service).await?),
            None => Source::SelfSigned(Settings {
                client: client.clone(),
                namespace: namespace.to_owned(),
                secret: options.tls_secret_name.clone(),
                dns_names: ["", ".cluster.local"]
                    .map(|domain| format!("{}.{namespace}.svc{domain}", options.service_name))
                    .to_vec(),
                configurations: configurations.clone(),
                lifetimes: options.lifetimes()?,
            }),
        };
        let clients = match options.clients() {
            Some(clients) => Some(clients.load(&service).await?),
            None => None,
        };
        Ok(Self {
            service,
            source,
            clients,
            client: client.clone(),
            configurations,
        })
    }

    /// Keeps it in order, and tells through `apply` of what is not.
    pub(super) fn follow(self, tasks: &mut Tasks, apply: Arc<Apply>, lease: LeaseName) {
        let (service, stop) = (self.service, tasks.stop.clone());
        if let Some(clients) = self.clients {
            let follow = clients.follow(service.clone(), stop.clone());
            tasks.spawn("the CAs of clients", follow);
        }
        let lease = LeaseObject::new(self.client.clone(), lease);
        match self.source {
            Source::Mounted(files) => {
                let source = files.file().display().to_string();
                let warnings = Warnings::new(apply, lease, &source);
                let follow = files.follow(service.clone(), stop.clone());
                tasks.spawn("certificate", follow);
                let published = (self.client, self.configurations);
                tasks.spawn("caBundle", judge(service, published, warnings, stop));
            }
            Source::SelfSigned(settings) => {
                let source = format!("the Secret {}/{}", settings.namespace, settings.secret);
                let warnings = Warnings::new(apply, lease, &source);
                let follow = SelfSigned::new(settings, service).follow(warnings, stop);
                tasks.spawn("certificate", follow);
            }
        }
    }
}
