//! `volume-warden drain`: takes back what Volume Warden wrote, before it is removed for good.

use super::{
    connection::Chosen,
    options::{ClusterOptions, ComponentsOption, ControllerOptions, LeaseOptions},
    print::print,
    signals::Signals,
};
use crate::{
    clock::Clock,
    cluster::{Apply, Elector, Leadership, LeaseName},
    component::ComponentRef,
    drain::{
        Drain, Outcome, Terms,
        leases::{self, Found},
    },
    telemetry::{Metrics, logs},
    tls::install_crypto,
};
use anyhow::bail;
use clap::{Args, ValueEnum};
use futures::future::{join_all, select_all};
use kube::{Api, Client};
use std::{process::ExitCode, sync::Arc, time::Duration};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A Lease that nobody renews expires in less.
const PATIENCE: Duration = Duration::from_secs(20);
/// A replica that waits for a Lease looks at it more often.
const FIRST_TURN: Duration = Duration::from_millis(2500);
/// Objects in use are left.
const IN_USE: u8 = 3;

/// For `--help`.
pub(super) const EXIT_CODES: &str = "Exit codes: 0 nothing is left; 1 something is, or it did not begin, and standard error says why; 2 \
the command line is wrong; 3 only objects are left that are being deleted and in use: run it again when they are not. It can be run again \
at any time, also after it was killed.";

/// `volume-warden drain`
#[derive(Debug, Args)]
pub struct DrainOptions {
    /// Whether Kubernetes' own controllers are on, which cannot be found out. With `on` they go on looking after the finalizers, and
    /// after the owner references of StatefulSets' claims whose pods are there, so those are left.
    #[arg(long, value_enum)]
    in_tree: InTree,

    #[command(flatten)]
    components: ComponentsOption,

    /// Say what would be done, and write nothing.
    #[arg(long, default_value_t)]
    dry_run: bool,

    #[command(flatten)]
    cluster: ClusterOptions,
    #[command(flatten)]
    controller: ControllerOptions,
    #[command(flatten)]
    lease: LeaseOptions,
}

/// Whether kube-controller-manager does the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InTree {
    /// It does.
    On,
    /// It does not.
    Off,
}

/// Runs until everything is taken back.
///
/// # Errors
/// When somebody else holds a Lease, or something could not be taken back.
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
    let lease = options.lease.name(
        &options.cluster.system_namespace(),
        Chosen {
            enabled: &components,
            all,
        },
        &options.controller.controller_id,
        options.dry_run,
    )?;
    let client = options.cluster.client().await?;
    let found = leases::of(&client, &components).await?;
    let metrics = Arc::new(Metrics::new());
    if options.dry_run {
        for held in found.iter().filter(|found| !found.holder.is_empty()) {
            let told = held.told();
            print(&format!("{told}: without --dry-run it is waited for"))?;
        }
        // Nothing is written, so nobody is asked.
        let (_elector, leadership) = elect(&client, lease, &metrics);
        let outcome = take_back(&options, components, client, leadership, metrics).await?;
        return concluded(&outcome);
    }
    let mut signals = Signals::new()?;
    leases::none_elsewhere(&found, &lease)?;
    if !found.is_empty() {
        // Where one was let go a moment ago, and a replica goes on, that one is to have it: it would take it after us, and write again.
        tokio::time::sleep(FIRST_TURN).await;
    }
    let stop = CancellationToken::new();
    let mut leaderships = Vec::new();
    let mut elections = Vec::new();
    for name in leases::all_here(&found, &lease) {
        let (elector, leadership) = elect(&client, name, &metrics);
        leaderships.push(leadership);
        elections.push(tokio::spawn(elector.run(stop.clone())));
    }
    let drained = tokio::select! {
        drained = led(&options, components, client, leaderships, &lease, metrics) => drained,
        signal = signals.next() => Err(anyhow::anyhow!("ended by {signal} before it was done; run it again")),
    };
    // The Leases are let go, so that nobody has to wait until they expire.
    stop.cancel();
    join_all(elections).await;
    drained
}

fn elect(client: &Client, lease: LeaseName, metrics: &Arc<Metrics>) -> (Elector, Leadership) {
    let leases = Api::namespaced(client.clone(), &lease.namespace);
    Elector::new(leases, lease, metrics.clone(), Clock::system())
}

/// Drains as soon as all the Leases are ours, for as long as they are.
async fn led(
    options: &DrainOptions,
    components: Vec<ComponentRef>,
    client: Client,
    leaderships: Vec<Leadership>,
    lease: &LeaseName,
    metrics: Arc<Metrics>,
) -> anyhow::Result<ExitCode> {
    let gained = join_all(leaderships.iter().map(Leadership::gained));
    if timeout(PATIENCE, gained).await.is_err() {
        bail!("{}", not_had(&client, &components, lease).await);
    }
    let Some(first) = leaderships.first().cloned() else {
        bail!("there is no Lease to hold");
    };
    let drain = take_back(options, components.clone(), client.clone(), first, metrics);
    let lost = select_all(leaderships.iter().map(|each| Box::pin(each.lost())));
    let outcome = tokio::select! {
        outcome = drain => outcome?,
        _ = lost => bail!("a Lease was lost; run it again"),
    };
    if let Some(begun) = held_by_others(&client, &components, lease).await?.first() {
        bail!(
            "a Volume Warden was started meanwhile: {}. Stop it, and run this again",
            begun.told()
        );
    }
    concluded(&outcome)
}

async fn not_had(client: &Client, components: &[ComponentRef], lease: &LeaseName) -> String {
    let held = held_by_others(client, components, lease)
        .await
        .unwrap_or_default();
    let who = held.first().map_or_else(
        || {
            format!(
                "the Lease {}/{} could not be had",
                lease.namespace, lease.name
            )
        },
        Found::told,
    );
    format!(
        "{who}, after {PATIENCE:?} of waiting. If a running Volume Warden holds it, which would write again what is taken back, scale that to \
         0 first; if not, the lines above say why"
    )
}

async fn held_by_others(
    client: &Client,
    components: &[ComponentRef],
    lease: &LeaseName,
) -> anyhow::Result<Vec<Found>> {
    let mut found = leases::of(client, components).await?;
    found.retain(|found| !found.holder.is_empty() && found.holder != lease.identity);
    Ok(found)
}

async fn take_back(
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
        terms: Terms {
            components,
            in_tree: options.in_tree == InTree::On,
            id: options.controller.controller_id.clone(),
        },
        in_flight,
    };
    // What cannot be told is no reason to stop in the middle.
    let mut told = Ok(());
    let outcome = drain.run(&mut |line| told = print(line)).await?;
    told.and_then(|()| print(&outcome.to_string()))?;
    Ok(outcome)
}

fn concluded(outcome: &Outcome) -> anyhow::Result<ExitCode> {
    match outcome.trouble() {
        Some(trouble) => bail!("{trouble}; run it again"),
        None if !outcome.in_use.is_empty() => Ok(ExitCode::from(IN_USE)),
        None => Ok(ExitCode::SUCCESS),
    }
}
