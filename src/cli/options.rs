//! The flags of `volume-warden run`, one group per concern. Other commands use some of the groups.

mod component_flags;
pub(super) mod connection;
pub(super) mod lease_name;
pub(super) mod tls;

use crate::{component::ComponentRef, go_duration, objects::ControllerId, telemetry::logs::Format};
use clap::{Args, builder::NonEmptyStringValueParser};
use component_flags::ComponentFlags;
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use tls::TlsOptions;

/// `volume-warden run`
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The flags of the components. This field comes first, because the other groups remove their
    /// values from the parsed arguments.
    #[command(flatten)]
    pub(super) component_flags: ComponentFlags,

    #[command(flatten)]
    pub(super) components: ComponentsOption,

    /// Decide and log, but write nothing except the Lease, the Secrets of certificate and webhook
    /// path, and caBundle, path and an annotation in the webhook configurations. Admission allows
    /// every request unchanged and returns what it would do as a warning.
    #[arg(long, default_value_t)]
    pub dry_run: bool,

    /// Format of log lines. RUST_LOG sets their levels.
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
    /// Returns the components to run: the selected ones, or those that run by default.
    pub(super) fn to_run(&self, all: &[ComponentRef]) -> Vec<ComponentRef> {
        let mut found = self.of(all);
        found.retain(|each| !self.components.is_empty() || each.runs_by_default());
        found
    }

    /// Returns the selected components, each once, in the order of `all`; all if none is selected.
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
    /// Kubeconfig file. In a pod, the default is its service account.
    #[arg(long)]
    pub(super) kubeconfig: Option<PathBuf>,

    /// The only namespace to watch; all namespaces when empty. It does not limit which volumes
    /// pv-protection protects, pv-releaser releases and drain changes, because volumes have no
    /// namespace. With it, namespace-gc does not run.
    #[arg(long, default_value = "")]
    pub(super) namespace: String,

    /// Namespace of Volume Warden's own Lease and Secrets [default: the pod's own, else
    /// volume-warden]
    #[arg(long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub(super) system_namespace: Option<String>,

    /// Maximum concurrent bulk writes: finalizer removals and deletions. Writes that protect data,
    /// owner references and creations, releases of volumes, and conditions of claims have separate
    /// limits, each this number but at most 16, so bulk writes do not delay them.
    #[arg(long, default_value = "32", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_in_flight: u16,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "pvc-provisioner and pv-releaser")]
pub(super) struct ControllerOptions {
    /// Name of this installation in the managed-by labels. pvc-provisioner and pv-releaser manage
    /// only claims and volumes with this name; the other components ignore these labels.
    #[arg(long, default_value_t, value_name = "ID")]
    pub(super) controller_id: ControllerId,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub(super) struct LeaseOptions {
    /// Name of the Lease [default: the --service-name, followed by -ID for a --controller-id other
    /// than the default, and by -dry-run for a dry run; a leader then also holds the Lease
    /// that version 0.1.0 would hold]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(super) leader_elect_resource_name: Option<String>,

    /// Namespace of the Lease. In a namespace without a service account of Volume Warden, `why`
    /// does not find it [default: that of --system-namespace]
    #[arg(long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub(super) leader_elect_resource_namespace: Option<String>,

    /// Identity of this process in the Lease. Two processes with the same identity both lead, so it
    /// has to differ between replicas [default: host name, process ID and a random part]
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(super) leader_elect_identity: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Servers")]
pub(super) struct ServerOptions {
    /// Address of the webhook server, HTTPS. The default accepts IPv6 and IPv4.
    #[arg(long, default_value = "[::]:9443", value_name = "IP:PORT")]
    pub(super) webhook_bind_address: SocketAddr,

    /// Maximum time for one admission review, at least 1s. The timeoutSeconds of the webhook
    /// limits it, too, so raise both together [default: the timeoutSeconds of each webhook in the
    /// manifests]
    #[arg(long, value_parser = go_duration::parse_at_least_1s)]
    pub(super) max_webhook_timeout: Option<Duration>,

    /// Namespaces whose pods must not depend on Volume Warden: the webhooks refuse no pod there and
    /// create no claims with pods, and pv-releaser refuses no claim; pvc-retention and pvc-trash
    /// still can. The system namespace is always exempt. The reconcilers act in these namespaces,
    /// and create the claims of their pods; to opt out completely, label a namespace
    /// volume-warden.dev/exclude=true.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "kube-system",
        value_name = "NAMESPACE,…"
    )]
    exempt_namespaces: Vec<String>,

    /// Address of /metrics, /livez and /readyz. Plain HTTP, or HTTPS with --metrics-authorization.
    #[arg(long, default_value = "[::]:8080", value_name = "IP:PORT")]
    pub(super) metrics_bind_address: SocketAddr,

    /// Serve /metrics only to clients with a bearer token that may get /metrics (nonResourceURLs
    /// of a ClusterRole). The API server decides by TokenReview and SubjectAccessReview.
    #[arg(long, default_value_t)]
    pub(super) metrics_authorization: bool,

    #[command(flatten)]
    pub(super) probes: ProbeOptions,
}

impl ServerOptions {
    /// Returns the names of `--exempt-namespaces`; an empty value means none.
    pub(super) fn exempt_namespaces(&self) -> Vec<String> {
        let names = self.exempt_namespaces.iter();
        names.filter(|name| !name.is_empty()).cloned().collect()
    }
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ProbeOptions {
    /// Address of /livez and /readyz for `volume-warden probe`, plain HTTP. Use an address that
    /// only the container can reach.
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "IP:PORT")]
    pub(super) probe_bind_address: SocketAddr,
}
