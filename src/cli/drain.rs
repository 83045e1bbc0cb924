//! `volume-warden drain`: removes what Volume Warden wrote on objects, before it is uninstalled.

mod removal;

use self::removal::Removal;
use super::{
    options::{
        ClusterOptions, ComponentsOption, ControllerOptions, LeaseOptions, lease_name::DEFAULT_NAME,
    },
    signals::Signals,
};
use crate::{
    component::ComponentRef,
    components::pvc_trash,
    drain::leases,
    telemetry::{Metrics, logs},
    tls::install_crypto,
};
use clap::{Args, ValueEnum, error::ErrorKind};
use futures::future::join_all;
use std::{process::ExitCode, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Time that `drain` waits before it tries to acquire the Leases, and after it has released them.
/// Within this time, a running replica acquires a Lease that was just released, and `drain` then
/// fails.
const HANDOVER: Duration = Duration::from_millis(2500);

pub(super) const EXIT_CODES: &str = "Exit codes: 0 everything is removed, except for volumes in the \
trash; 1 failed or incomplete, standard error states why; 2 the command line is wrong; 3 only \
objects are left that are being deleted and in use: run it again when they are released. It can be \
run again at any time, also after it was killed. With --dry-run, the exit code is the one that \
drain would return if none of the printed Leases blocked it.";

/// `volume-warden drain`
#[derive(Debug, Args)]
pub struct DrainOptions {
    /// Whether Kubernetes' built-in controllers are enabled; Volume Warden cannot detect it. With
    /// `on` they continue to manage the finalizers, and the owner references of StatefulSets'
    /// claims whose pods exist, so `drain` leaves those unchanged.
    #[arg(long, value_enum)]
    in_tree: InTree,

    #[command(flatten)]
    components: ComponentsOption,

    /// Delete the data of volumes in the trash, except of volumes whose reclaim policy was Retain
    /// before pvc-trash set it, that are attached, or that a claim names in spec.volumeName.
    /// Without this flag, all volumes in the trash are listed and kept. Requires pvc-trash among
    /// the components.
    #[arg(long, default_value_t, conflicts_with = "namespace")]
    purge_trash: bool,

    /// Report what would be done, and write nothing.
    #[arg(long, default_value_t)]
    dry_run: bool,

    #[command(flatten)]
    cluster: ClusterOptions,
    #[command(flatten)]
    controller: ControllerOptions,
    #[command(flatten)]
    lease: LeaseOptions,
}

/// Whether the controllers in kube-controller-manager do the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InTree {
    /// The built-in controllers are enabled.
    On,
    /// The built-in controllers are disabled.
    Off,
}

/// Removes what Volume Warden wrote on objects, and returns the exit code.
///
/// # Errors
/// When a Lease is not acquired or is lost, or something could not be read, removed or
/// printed.
pub fn run(options: DrainOptions, all: &[ComponentRef]) -> anyhow::Result<ExitCode> {
    logs::init(logs::Format::Text);
    install_crypto();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(drain(options, all))
}

async fn drain(options: DrainOptions, all: &[ComponentRef]) -> anyhow::Result<ExitCode> {
    let components = options.components.of(all);
    if options.purge_trash && !components.iter().any(|each| each.name() == pvc_trash::NAME) {
        let message = "--purge-trash requires pvc-trash in --components";
        return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message).into());
    }
    let lease = options.lease.name(
        (&options.cluster.system_namespace(), DEFAULT_NAME),
        &components,
        &options.controller.controller_id,
        options.dry_run,
    )?;
    let (client, server) = options.cluster.client_and_server().await?;
    tracing::info!(kubernetes = server, "removing what Volume Warden wrote");
    let found = leases::of(&client, &components, &lease.namespace).await?;
    let removal = Removal {
        options: &options,
        components,
        client,
        lease,
        found,
        metrics: Arc::new(Metrics::new()),
    };
    if options.dry_run {
        removal.dry_run().await
    } else {
        drain_unless_interrupted(&removal).await
    }
}

async fn drain_unless_interrupted(removal: &Removal<'_>) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    leases::none_elsewhere(&removal.found, &removal.lease)?;
    if !removal.found.is_empty() {
        // If a Lease was just released and another replica is running, let that replica acquire it
        // now: it would otherwise acquire it after the drain, and write again.
        tokio::time::sleep(HANDOVER).await;
    }
    let stop = CancellationToken::new();
    let names = leases::all_here(&removal.found, &removal.lease);
    let elected = names.into_iter().map(|name| removal.elector(name));
    let (electors, leaderships): (Vec<_>, Vec<_>) = elected.unzip();
    #[expect(
        clippy::disallowed_methods,
        reason = "the tasks are awaited below, after the drain"
    )]
    let elections: Vec<_> = electors
        .into_iter()
        .map(|elector| tokio::spawn(elector.run(stop.clone())))
        .collect();
    let drained = tokio::select! {
        drained = removal.drain_as_leader(leaderships) => drained,
        signal = signals.next() => Err(anyhow::anyhow!("drain was interrupted by {signal} before it was done; run volume-warden drain again")),
    };
    // Releases the Leases, so that no other process has to wait until they expire.
    stop.cancel();
    join_all(elections).await;
    let code = drained?;
    // A replica that started during the drain waited for the Lease, and acquires it now.
    tokio::time::sleep(HANDOVER).await;
    removal.check_not_held().await?;
    Ok(code)
}
