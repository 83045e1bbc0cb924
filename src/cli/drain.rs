//! `volume-warden drain`: removes what Volume Warden wrote on objects, before it is uninstalled.

use super::{
    connection::DEFAULT_NAME,
    options::{ClusterOptions, ComponentsOption, ControllerOptions, LeaseOptions},
    print::{keep_first_error, print},
    signals::Signals,
};
use crate::{
    clock::Clock,
    cluster::{Apply, Elector, Leadership, LeaseName},
    component::ComponentRef,
    components::pvc_trash,
    drain::{
        Drain, Outcome, Terms,
        leases::{self, FoundLease},
    },
    plain::Plain,
    telemetry::{Metrics, logs},
    tls::install_crypto,
};
use anyhow::bail;
use clap::{Args, ValueEnum, error::ErrorKind};
use futures::future::{join_all, select_all};
use kube::{Api, Client};
use std::{process::ExitCode, sync::Arc, time::Duration};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Maximum time for which `drain` waits for the Leases. A Lease that is not renewed expires sooner.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time that `drain` waits before it tries to acquire the Leases. Within this time, a running
/// replica acquires a Lease that was just released, and `drain` then fails.
const HANDOVER: Duration = Duration::from_millis(2500);
/// Time that `drain` waits once it holds the Leases, if a leader held one before: a write that it sent
/// before it released the Lease takes at most 4 s.
const LAST_WRITE: Duration = Duration::from_secs(4);
/// Maximum time for which `drain` waits, before it exits, for the publication of the Events about
/// writes that the API server refused.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(10);
/// Exit code of `drain` if it is complete except for objects that are being deleted and in use.
const IN_USE: u8 = 3;

pub(super) const EXIT_CODES: &str = "Exit codes: 0 everything is removed, except for volumes in the \
trash; 1 failed or incomplete, standard error states why; 2 the command line is wrong; 3 only \
objects are left that are being deleted and in use: run it again when they are released. It can be \
run again at any time, also after it was killed. With --dry-run, the exit code is that of the drain \
which it predicts, once no Lease that it names prevents that drain.";

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
    /// Without this flag, all volumes in the trash are listed and kept. Requires pvc-trash among the
    /// components.
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
    let metrics = Arc::new(Metrics::new());
    if options.dry_run {
        for found in found.iter().filter(|found| found.prevents(&lease)) {
            let message = found.description();
            let until = match found.holder.is_empty() {
                true => "exists in another namespace",
                false => "is held",
            };
            let line =
                format!("{message}: without --dry-run, drain removes nothing while it {until}");
            print(&Plain(line).to_string())?;
        }
        // A dry run writes nothing, so it acquires no Lease.
        let (_elector, leadership) = elect(&client, lease, &metrics);
        let outcome = remove(&options, components, client, leadership, metrics).await?;
        return exit_code(&outcome);
    }
    let mut signals = Signals::new()?;
    leases::none_elsewhere(&found, &lease)?;
    if !found.is_empty() {
        // If a Lease was just released and another replica is running, let that replica acquire it
        // now: it would otherwise acquire it after the drain, and write again.
        tokio::time::sleep(HANDOVER).await;
    }
    let stop = CancellationToken::new();
    let mut leaderships = Vec::new();
    let mut elections = Vec::new();
    for name in leases::all_here(&found, &lease) {
        let (elector, leadership) = elect(&client, name, &metrics);
        leaderships.push(leadership);
        #[expect(
            clippy::disallowed_methods,
            reason = "the task is awaited below, after the drain"
        )]
        elections.push(tokio::spawn(elector.run(stop.clone())));
    }
    let drained = tokio::select! {
        drained = drain_as_leader(&options, components, client, (leaderships, !found.is_empty()), &lease, metrics) => drained,
        signal = signals.next() => Err(anyhow::anyhow!("drain was interrupted by {signal} before it was done; run volume-warden drain again")),
    };
    // Releases the Leases, so that no other process has to wait until they expire.
    stop.cancel();
    join_all(elections).await;
    drained
}

fn elect(client: &Client, lease: LeaseName, metrics: &Arc<Metrics>) -> (Elector, Leadership) {
    let leases = Api::namespaced(client.clone(), &lease.namespace);
    Elector::new(leases, lease, metrics.clone(), Clock::system())
}

/// Acquires all Leases and, while it holds them, removes what Volume Warden has written.
async fn drain_as_leader(
    options: &DrainOptions,
    components: Vec<ComponentRef>,
    client: Client,
    (leaderships, had_leader): (Vec<Leadership>, bool),
    lease: &LeaseName,
    metrics: Arc<Metrics>,
) -> anyhow::Result<ExitCode> {
    let gained = join_all(leaderships.iter().map(Leadership::gained));
    if timeout(ACQUIRE_TIMEOUT, gained).await.is_err() {
        bail!("{}", not_acquired(&client, &components, lease).await);
    }
    if had_leader {
        tokio::time::sleep(LAST_WRITE).await;
    }
    let Some(first) = leaderships.first().cloned() else {
        bail!("there is no Lease to hold");
    };
    let drain = remove(options, components.clone(), client.clone(), first, metrics);
    let lost = select_all(leaderships.iter().map(|each| Box::pin(each.lost())));
    let outcome = tokio::select! {
        outcome = drain => outcome?,
        _ = lost => bail!("a Lease was lost; run volume-warden drain again"),
    };
    if let Some(begun) = held_by_others(&client, &components, lease).await?.first() {
        bail!(
            "another Volume Warden started during the drain: {}. Stop it, and run volume-warden drain again",
            begun.description()
        );
    }
    exit_code(&outcome)
}

async fn not_acquired(client: &Client, components: &[ComponentRef], lease: &LeaseName) -> String {
    let held = held_by_others(client, components, lease)
        .await
        .unwrap_or_default();
    let problem = held.first().map_or_else(
        || {
            format!(
                "the Lease {}/{} was not acquired",
                lease.namespace, lease.name
            )
        },
        FoundLease::description,
    );
    format!(
        "{problem}, after {ACQUIRE_TIMEOUT:?} of waiting. If a running Volume Warden holds it, scale it to 0 first: it would write \
         again what drain removes; if not, the log lines above state why"
    )
}

async fn held_by_others(
    client: &Client,
    components: &[ComponentRef],
    lease: &LeaseName,
) -> anyhow::Result<Vec<FoundLease>> {
    let mut found = leases::of(client, components, &lease.namespace).await?;
    found.retain(|found| !found.holder.is_empty() && found.holder != lease.identity);
    Ok(found)
}

async fn remove(
    options: &DrainOptions,
    components: Vec<ComponentRef>,
    client: Client,
    leadership: Leadership,
    metrics: Arc<Metrics>,
) -> anyhow::Result<Outcome> {
    let in_flight = options.cluster.max_in_flight.into();
    let apply = Apply::new(
        client.clone(),
        leadership,
        in_flight,
        options.dry_run,
        metrics,
    );
    let drain = Drain {
        client,
        apply: Arc::new(apply),
        namespace: options.cluster.namespace(),
        system_namespace: options.cluster.system_namespace(),
        terms: Terms {
            components,
            in_tree: options.in_tree == InTree::On,
            purge_trash: options.purge_trash,
            id: options.controller.controller_id.clone(),
        },
        in_flight,
    };
    // If a line cannot be printed, the drain continues. The first error is returned at the end.
    let mut printed = Ok(());
    let mut say = |line: &str| keep_first_error(&mut printed, print(&Plain(line).to_string()));
    let outcome = drain.run(&mut say).await;
    // The process must not end before the Events about refused writes are published in the
    // background.
    let _ = timeout(EVENTS_TIMEOUT, drain.apply.reported()).await;
    let outcome = outcome?;
    printed.and_then(|()| print(&outcome.to_string()))?;
    Ok(outcome)
}

fn exit_code(outcome: &Outcome) -> anyhow::Result<ExitCode> {
    match outcome.trouble() {
        Some(trouble) => bail!("{trouble}; run volume-warden drain again"),
        None if !outcome.in_use.is_empty() => Ok(ExitCode::from(IN_USE)),
        None => Ok(ExitCode::SUCCESS),
    }
}
