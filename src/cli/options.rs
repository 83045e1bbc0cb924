//! The flags of `volume-warden run`, one group per concern.

use super::{
    backend::BackendOptions,
    collecting::{CollectingOptions, PeriodOptions},
    go_duration,
    provisioner::ProvisionerOptions,
    releaser::ReleaserOptions,
    tls::TlsOptions,
};
use crate::{
    causes::FinishedPods, components::Component, objects::ControllerId, telemetry::logs::Format,
};
use clap::{Args, ValueEnum};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// Those components, or all where none is named, each once and in the order of the table.
pub(super) fn in_order(components: &[Component]) -> Vec<Component> {
    let wanted = |component: &Component| components.is_empty() || components.contains(component);
    Component::ALL.into_iter().filter(wanted).collect()
}

/// `volume-warden run`
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Components to run; all by default.
    #[arg(
        long,
        env = "VOLUME_WARDEN_COMPONENTS",
        value_delimiter = ',',
        value_name = "NAME,…"
    )]
    components: Vec<Component>,

    /// Decide and log, but write nothing except the Lease, the Secrets of certificate and webhook path, and caBundle and path in
    /// the webhook configurations. Admission allows everything unchanged and says as a warning what it would do.
    #[arg(long, env = "VOLUME_WARDEN_DRY_RUN", default_value_t)]
    pub dry_run: bool,

    /// How log lines look. RUST_LOG says which there are.
    #[arg(long, env = "VOLUME_WARDEN_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: Format,

    #[command(flatten)]
    pub(super) cluster: ClusterOptions,
    #[command(flatten)]
    pub(super) protection: ProtectionOptions,
    #[command(flatten)]
    pub(super) controller: ControllerOptions,
    #[command(flatten)]
    pub(super) provisioner: ProvisionerOptions,
    #[command(flatten)]
    pub(super) releaser: ReleaserOptions,
    #[command(flatten)]
    pub(super) backend: BackendOptions,
    #[command(flatten)]
    pub(super) collecting: CollectingOptions,
    #[command(flatten)]
    pub(super) period: PeriodOptions,
    #[command(flatten)]
    pub(super) lease: LeaseOptions,
    #[command(flatten)]
    pub(super) server: ServerOptions,
    #[command(flatten)]
    pub(super) tls: TlsOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterOptions {
    /// Kubeconfig file; in a pod its service account is used.
    #[arg(long, env = "VOLUME_WARDEN_KUBECONFIG", value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Look after this namespace only; all when empty.
    #[arg(long, env = "VOLUME_WARDEN_NAMESPACE", default_value = "")]
    pub(super) namespace: String,

    /// Where Volume Warden's own Lease and Secret are [default: the pod's own, else volume-warden]
    #[arg(long, env = "VOLUME_WARDEN_SYSTEM_NAMESPACE", value_name = "NAMESPACE")]
    pub(super) system_namespace: Option<String>,

    /// Bulk writes under way at once: finalizers removed, objects deleted. Three other lanes have as many each, but at most 16, and
    /// are not delayed by bulk: what keeps data; owner references and creations; releases of volumes.
    #[arg(long, env = "VOLUME_WARDEN_MAX_IN_FLIGHT", default_value = "32", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_in_flight: u16,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "pvc-protection")]
pub(super) struct ProtectionOptions {
    /// Whether a pod that has Succeeded or Failed still uses its claims.
    #[arg(long, env = "VOLUME_WARDEN_FINISHED_PODS", value_enum, default_value_t)]
    pub(super) finished_pods: FinishedPodsOption,
}

/// The values of `--finished-pods`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum FinishedPodsOption {
    /// Yes, as long as the pod object exists: what Kubernetes does, and the only safe answer while a node may still have the
    /// volume mounted.
    #[default]
    Hold,
    /// No: the original PVC-protection proposal. A claim can then go while a slow node is still unmounting it.
    Release,
}

impl From<FinishedPodsOption> for FinishedPods {
    fn from(option: FinishedPodsOption) -> Self {
        match option {
            FinishedPodsOption::Hold => Self::Hold,
            FinishedPodsOption::Release => Self::Release,
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "pvc-provisioner and pv-releaser")]
pub(super) struct ControllerOptions {
    /// The name of this installation in the managed-by labels of claims and volumes: it looks after those with its own name only.
    #[arg(
        long,
        env = "VOLUME_WARDEN_CONTROLLER_ID",
        default_value_t,
        value_name = "ID"
    )]
    pub(super) controller_id: ControllerId,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub(super) struct LeaseOptions {
    /// Name of the Lease [default: volume-warden with all components, else their names joined by dashes; followed by -<ID> for a
    /// --controller-id of one's own, and by -dry-run for a dry run]
    #[arg(long, env = "VOLUME_WARDEN_LEASE_LOCK_NAME", value_name = "NAME")]
    pub(super) lease_lock_name: Option<String>,

    /// Namespace of the Lease [default: the system namespace]
    #[arg(
        long,
        env = "VOLUME_WARDEN_LEASE_LOCK_NAMESPACE",
        value_name = "NAMESPACE"
    )]
    pub(super) lease_lock_namespace: Option<String>,

    /// This process's identity in the Lease [default: host name, process and a random part]
    #[arg(long, env = "VOLUME_WARDEN_LEASE_LOCK_ID", value_name = "ID")]
    pub(super) lease_lock_id: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Servers")]
pub(super) struct ServerOptions {
    /// Where the webhooks are served, over HTTPS.
    #[arg(
        long,
        env = "VOLUME_WARDEN_WEBHOOK_ADDRESS",
        default_value = "0.0.0.0:9443",
        value_name = "IP:PORT"
    )]
    pub(super) webhook_address: SocketAddr,

    /// Longest time that a review may take, where its webhook has a longer timeoutSeconds than the manifests give it
    /// [default: the timeoutSeconds of each webhook in the manifests]
    #[arg(
        long,
        env = "VOLUME_WARDEN_MAX_WEBHOOK_TIMEOUT",
        value_parser = go_duration::parse,
        value_name = "DURATION"
    )]
    pub(super) max_webhook_timeout: Option<Duration>,

    /// Where /metrics is served, over plain HTTP, or over HTTPS with --metrics-authorization. Also /livez and /readyz.
    #[arg(
        long,
        env = "VOLUME_WARDEN_METRICS_ADDRESS",
        default_value = "0.0.0.0:8080",
        value_name = "IP:PORT"
    )]
    pub(super) metrics_address: SocketAddr,

    /// Serve /metrics only to bearers of a token that may get /metrics (ClusterRoles' nonResourceURLs), as the API server
    /// judges by TokenReview and SubjectAccessReview.
    #[arg(long, env = "VOLUME_WARDEN_METRICS_AUTHORIZATION", default_value_t)]
    pub(super) metrics_authorization: bool,

    #[command(flatten)]
    pub(super) probes: ProbeOptions,
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ProbeOptions {
    /// Where `volume-warden probe` asks for /livez and /readyz, over plain HTTP. An address that only the container can reach.
    #[arg(
        long,
        env = "VOLUME_WARDEN_PROBE_ADDRESS",
        default_value = "127.0.0.1:8081",
        value_name = "IP:PORT"
    )]
    pub(super) probe_address: SocketAddr,
}

impl RunOptions {
    /// The components to run, each once, in the order of the table.
    pub fn components(&self) -> Vec<Component> {
        in_order(&self.components)
    }
}
