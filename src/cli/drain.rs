//! `volume-warden drain`: takes back what Volume Warden wrote on objects, before it is removed for good.

use super::options::{ClusterOptions, LeaseOptions, in_order};
use crate::{
    cluster::{Apply, Elector, Feeds, Leadership, LeaseName},
    components::Component,
    pvc_retention::{Drain, Known},
    telemetry::{Metrics, logs},
    tls::install_crypto,
};
use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use kube::{Api, Client};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A Lease that nobody renews expires in less.
const PATIENCE: Duration = Duration::from_secs(20);

/// `volume-warden drain`
#[derive(Debug, Args)]
pub struct DrainOptions {
    /// Whether Kubernetes' own controllers are on, which cannot be found out: with `on` they keep the owner references of
    /// StatefulSets' claims, and only our marks are taken back.
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
        println!("None of these components writes anything that would have to be taken back.");
        return Ok(());
    }
    let client = options.cluster.client().await?;
    let (metrics, stop) = (Arc::new(Metrics::new()), CancellationToken::new());
    // A dry run has a Lease of its own, so it gets it while another process works.
    let lease = options.lease.name(
        &options.cluster.system_namespace(),
        &components,
        options.dry_run,
    );
    let (elector, leadership) = elect(&client, lease.clone(), &metrics);
    let election = tokio::spawn(elector.run(stop.clone()));
    let drained = match timeout(PATIENCE, leadership.gained()).await {
        Ok(()) => take_back(&options, client, leadership, metrics).await,
        Err(_) => Err(anyhow::anyhow!(
            "the Lease {}/{} is held by a running Volume Warden, which would write again what is taken back: scale it to 0 first",
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
    let namespace = options.cluster.namespace();
    let in_flight = options.cluster.max_in_flight.into();
    let watches = Component::PvcRetention
        .watches()
        .iter()
        .map(|kind| feeds.run(*kind, &client, namespace.as_deref()));
    let watches = futures::future::join_all(watches);
    let drain = Drain {
        known: Known {
            sets: feeds.sets.clone(),
            claims: feeds.claims.clone(),
            pods: feeds.pods.clone(),
        },
        apply: Apply::new(
            client.clone(),
            leadership,
            in_flight,
            options.dry_run,
            metrics,
        ),
        marks_only: options.in_tree == InTree::On,
    };
    let work = async {
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
    };
    tokio::select! { done = work => done, _ = watches => bail!("the watches ended") }
}
