//! `volume-warden drain`: takes back what Volume Warden wrote on objects, before it is removed for good.

use super::options::{ClusterOptions, ControllerOptions, LeaseOptions, in_order};
use crate::{
    cluster::{Apply, Elector, Feeds, Leadership, LeaseName},
    components::Component,
    pvc_retention::{Drain, Known},
    telemetry::{Metrics, logs},
    tls::install_crypto,
};
use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use futures::future::join_all;
use kube::{Api, Client};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A Lease that nobody renews expires in less.
const PATIENCE: Duration = Duration::from_secs(20);

/// `volume-warden drain`
#[derive(Debug, Args)]
pub struct DrainOptions {
    /// Whether Kubernetes' own controllers are on, which cannot be found out. With `on` they go on looking after the owner
    /// references of StatefulSets' claims whose pods are there, so those are left.
    #[arg(long, env = "VOLUME_WARDEN_IN_TREE", value_enum)]
    in_tree: InTree,

    /// Components to drain, as given to `run`; all by default. The name of the Lease follows from them.
    #[arg(
        long,
        env = "VOLUME_WARDEN_COMPONENTS",
        value_delimiter = ',',
        value_name = "NAME,…"
    )]
    components: Vec<Component>,

    /// Say what would be done, and write nothing.
    #[arg(long, env = "VOLUME_WARDEN_DRY_RUN", default_value_t)]
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
/// When somebody else holds the Lease, or something could not be taken back.
pub fn run(options: DrainOptions) -> anyhow::Result<()> {
    logs::init(logs::Format::Text);
    install_crypto();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(drain(options))
}

async fn drain(options: DrainOptions) -> anyhow::Result<()> {
    let components = in_order(&options.components);
    if !components.contains(&Component::PvcRetention) {
        println!(
            "Only what pvc-retention wrote is taken back, and it is not among these components."
        );
        return Ok(());
    }
    let lease = options.lease.name(
        &options.cluster.system_namespace(),
        &components,
        &options.controller.controller_id,
        options.dry_run,
    )?;
    let client = options.cluster.client().await?;
    let (metrics, stop) = (Arc::new(Metrics::new()), CancellationToken::new());
    let (elector, leadership) = elect(&client, lease.clone(), &metrics);
    if options.dry_run {
        return take_back(&options, client, leadership, metrics).await;
    }
    let election = tokio::spawn(elector.run(stop.clone()));
    let drained = match timeout(PATIENCE, leadership.gained()).await {
        Ok(()) => take_back(&options, client, leadership, metrics).await,
        Err(_) => Err(anyhow::anyhow!(
            "the Lease {}/{} could not be had within {PATIENCE:?}. If a running Volume Warden holds it, which would write again what is \
             taken back, scale that to 0 first; if not, the lines above say why",
            lease.namespace,
            lease.name
        )),
    };
    stop.cancel();
    election.await?;
    drained
}

fn elect(client: &Client, lease: LeaseName, metrics: &Arc<Metrics>) -> (Elector, Leadership) {
    let leases = Api::namespaced(client.clone(), &lease.namespace);
    Elector::new(leases, lease, metrics.clone())
}

async fn take_back(
    options: &DrainOptions,
    client: Client,
    leadership: Leadership,
    metrics: Arc<Metrics>,
) -> anyhow::Result<()> {
    let feeds = Feeds::new(&metrics);
    let in_flight = options.cluster.max_in_flight.into();
    let drain = Drain {
        known: Known::from(&feeds),
        apply: Apply::new(
            client.clone(),
            leadership,
            in_flight,
            options.dry_run,
            metrics,
        ),
        in_tree: options.in_tree == InTree::On,
    };
    let namespace = options.cluster.namespace();
    let watched = Component::PvcRetention.watches().iter();
    let watches = watched.map(|kind| feeds.run(*kind, &client, namespace.as_deref()));
    tokio::select! {
        done = report(&feeds, &drain) => done,
        _ = join_all(watches) => bail!("the watches ended"),
    }
}

async fn report(feeds: &Feeds, drain: &Drain) -> anyhow::Result<()> {
    for kind in Component::PvcRetention.watches() {
        let synced = timeout(PATIENCE, feeds.synced(*kind)).await;
        synced.with_context(|| format!("{} could not be listed", kind.plural()))?;
    }
    let drained = drain.run(|line| println!("{line}")).await;
    println!("{drained}");
    if drained.failed > 0 {
        bail!("not everything was taken back; run it again");
    }
    Ok(())
}
