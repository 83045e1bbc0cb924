//! The flags of `volume-warden run`, one group per concern.

use super::{component_flags::ComponentFlags, tls::TlsOptions};
use crate::{component::ComponentRef, go_duration, objects::ControllerId, telemetry::logs::Format};
use clap::Args;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// `volume-warden run`
#[derive(Debug, Args)]
pub struct RunOptions {
    /// First, because the others take their values out of what was parsed.
    #[command(flatten)]
    pub(super) component_flags: ComponentFlags,

    #[command(flatten)]
    pub(super) components: ComponentsOption,

    /// Decide and log, but write nothing except the Lease, the Secrets of certificate and webhook path, and caBundle and path in
    /// the webhook configurations. Admission allows everything unchanged and says as a warning what it would do.
    #[arg(long, default_value_t)]
    pub dry_run: bool,

    /// How log lines look. RUST_LOG says which there are.
    #[arg(long, value_enum, default_value_t)]
    pub log_format: Format,

    #[command(flatten)]
    pub(super) cluster: ClusterOptions,
    #[command(flatten)]
    pub(super) controller: ControllerOptions,
    #[command(flatten)]
    pub(super) lease: LeaseOptions,
    #[command(flatten)]
    pub(super) server: ServerOptions,
    #[command(flatten)]
    pub(super) tls: TlsOptions,
}

/// `--components`, whose values are the names in the list.
#[derive(Debug, Args)]
pub(super) struct ComponentsOption {
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    components: Vec<String>,
}

impl ComponentsOption {
    /// Each once, in the order of the list.
    pub(super) fn of(&self, all: &[ComponentRef]) -> Vec<ComponentRef> {
        let named = &self.components;
        let wanted =
            |each: &&ComponentRef| named.is_empty() || named.iter().any(|name| name == each.name());
        all.iter().filter(wanted).copied().collect()
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterOptions {
    /// Kubeconfig file; in a pod its service account is used.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Look after this namespace only; all when empty.
    #[arg(long, default_value = "")]
    pub(super) namespace: String,

    /// Where Volume Warden's own Lease and Secret are [default: the pod's own, else volume-warden]
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) system_namespace: Option<String>,

    /// Bulk writes under way at once: finalizers removed, objects deleted. Three other lanes have as many each, but at most 16, and
    /// are not delayed by bulk: what keeps data; owner references and creations; releases of volumes.
    #[arg(long, default_value = "32", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_in_flight: u16,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "pvc-provisioner and pv-releaser")]
pub(super) struct ControllerOptions {
    /// The name of this installation in the managed-by labels of claims and volumes: it looks after those with its own name only.
    #[arg(long, default_value_t, value_name = "ID")]
    pub(super) controller_id: ControllerId,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub(super) struct LeaseOptions {
    /// Name of the Lease [default: volume-warden with all components, else their names joined by dashes; followed by -<ID> for a
    /// --controller-id of one's own, and by -dry-run for a dry run]
    #[arg(long, value_name = "NAME")]
    pub(super) leader_elect_resource_name: Option<String>,

    /// Namespace of the Lease [default: the system namespace]
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) leader_elect_resource_namespace: Option<String>,

    /// This process's identity in the Lease [default: host name, process and a random part]
    #[arg(long, value_name = "ID")]
    pub(super) leader_elect_identity: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Servers")]
pub(super) struct ServerOptions {
    /// Where the webhooks are served, over HTTPS.
    #[arg(long, default_value = "0.0.0.0:9443", value_name = "IP:PORT")]
    pub(super) webhook_bind_address: SocketAddr,

    /// Longest time that a review may take, where its webhook has a longer timeoutSeconds than the manifests give it
    /// [default: the timeoutSeconds of each webhook in the manifests]
    #[arg(
        long,
        value_parser = go_duration::parse,
        value_name = "DURATION"
    )]
    pub(super) max_webhook_timeout: Option<Duration>,

    /// Where /metrics is served, over plain HTTP, or over HTTPS with --metrics-authorization. Also /livez and /readyz.
    #[arg(long, default_value = "0.0.0.0:8080", value_name = "IP:PORT")]
    pub(super) metrics_bind_address: SocketAddr,

    /// Serve /metrics only to bearers of a token that may get /metrics (ClusterRoles' nonResourceURLs), as the API server
    /// judges by TokenReview and SubjectAccessReview.
    #[arg(long, default_value_t)]
    pub(super) metrics_authorization: bool,

    #[command(flatten)]
    pub(super) probes: ProbeOptions,
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ProbeOptions {
    /// Where `volume-warden probe` asks for /livez and /readyz, over plain HTTP. An address that only the container can reach.
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "IP:PORT")]
    pub(super) probe_bind_address: SocketAddr,
}
