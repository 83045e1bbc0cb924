//! One replica of Volume Warden: the whole program except its sockets, certificates and CLI.

use crate::{
    admission::{Endpoint, Missing, Reviews},
    cluster::{Cluster, wall_clock},
    connection::Connection,
    network::Wire,
};
use anyhow::Context as _;
use clap::{ArgMatches, Command};
use futures::{FutureExt, future::BoxFuture};
use kube::Client;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{task::JoinSet, time::Sleep};
use tokio_util::sync::CancellationToken;
use volume_warden::{
    admission,
    assembly::{Assembly, Settings},
    cluster::{Feeds, LeaseName},
    component::ComponentRef,
    components,
    objects::ControllerId,
    telemetry::Metrics,
};
use volume_warden_apiserver_model::User;

/// The namespace in which Volume Warden runs.
pub const SYSTEM_NAMESPACE: &str = "volume-warden";
/// The user of Volume Warden.
pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:volume-warden:volume-warden";
/// The Lease for which the replicas compete.
pub const LEASE: &str = "volume-warden";

/// Returns the name of a replica in the printed transcript. `incarnation` counts its restarts.
pub fn name(index: usize, incarnation: u32) -> String {
    format!("replica-{index}.{incarnation}")
}

/// Returns whether the client of this name is a replica.
pub fn is_replica(client: &str) -> bool {
    client.starts_with("replica-")
}

/// How the replicas of a history are started.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Start {
    /// Flags of components.
    pub flags: Vec<&'static str>,
    /// The only namespace to handle, if any.
    pub namespace: Option<&'static str>,
    /// Whether nothing may be changed.
    pub dry_run: bool,
    /// Maximum number of concurrent bulk writes.
    pub max_in_flight: usize,
}

/// A running replica.
pub struct Replica {
    name: Arc<str>,
    connection: Arc<Connection>,
    missing: Missing,
    feeds: Feeds,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Replica {
    /// Starts a replica and adds it to the endpoints of the webhooks. `offset` is the
    /// number of seconds by which its wall clock is ahead.
    ///
    /// # Errors
    /// When a flag is invalid.
    pub async fn start(
        cluster: &Arc<Cluster>,
        reviews: &Reviews,
        name: String,
        start: &Start,
        offset: i64,
    ) -> anyhow::Result<Self> {
        let (name, connection): (Arc<str>, _) = (name.into(), Arc::new(Connection::default()));
        let wire = Wire {
            cluster: cluster.clone(),
            user: service_account(),
            client: name.clone(),
            connection: connection.clone(),
        };
        let (metrics, stop) = (Arc::new(Metrics::new()), CancellationToken::new());
        let client = Client::new(wire, "default");
        let settings = Settings {
            flags: flags(&start.flags)?,
            lease_client: client.clone(),
            client,
            namespace: start.namespace.map(str::to_owned),
            system_namespace: SYSTEM_NAMESPACE.into(),
            exempt: vec!["kube-system".into()],
            controller_id: ControllerId::default(),
            dry_run: start.dry_run,
            max_in_flight: start.max_in_flight,
            lease: LeaseName {
                namespace: SYSTEM_NAMESPACE.into(),
                name: LEASE.into(),
                identity: name.to_string(),
                former: None,
                labels: BTreeMap::new(),
            },
            clock: wall_clock(&cluster.schedule, offset),
            metrics: metrics.clone(),
            stop: stop.clone(),
        };
        let (shared, elector) = settings.share();
        let mut assembly = Assembly::new(&enabled(), shared)
            .await
            .context("cannot assemble")?;
        let options = admission::Options {
            dry_run: start.dry_run,
            longest_timeout: None,
            metrics,
        };
        let router = admission::router(std::mem::take(&mut assembly.webhooks), &options);
        let mut tasks = JoinSet::new();
        let pausable = |task| Pausable {
            task,
            cluster: cluster.clone(),
            connection: connection.clone(),
            pause: None,
        };
        tasks.spawn(pausable(elector.run(stop.clone()).boxed()));
        for (_, watch) in assembly.watches() {
            tasks.spawn(pausable(watch.boxed()));
        }
        for task in assembly.tasks() {
            tasks.spawn(pausable(task.boxed()));
        }
        let missing: Missing = Arc::new(assembly.not_ready_reasons());
        reviews.add(Endpoint {
            router,
            missing: missing.clone(),
            connection: connection.clone(),
        });
        Ok(Self {
            name,
            connection,
            missing,
            feeds: assembly.shared().feeds.clone(),
            tasks,
            stop,
        })
    }

    /// The name of the replica.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The connections of the replica.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Why the replica is not ready; empty if it is.
    pub fn missing(&self) -> Vec<String> {
        (self.missing)()
    }

    /// Ends the replica at once, as SIGKILL does.
    pub fn kill(mut self) {
        self.connection.cut();
        self.tasks.abort_all();
    }

    /// Shuts the replica down gracefully: it releases the Lease.
    pub async fn terminate(mut self) {
        self.stop.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // Watches never end.
        let _ = tokio::time::timeout(Duration::from_secs(6), all).await;
        self.kill();
    }
}

/// Frees the memory of the process, which has ended.
impl Drop for Replica {
    fn drop(&mut self) {
        self.feeds.unlisten();
    }
}

/// A task of a replica, which does not run while the process is paused.
struct Pausable {
    task: BoxFuture<'static, ()>,
    cluster: Arc<Cluster>,
    connection: Arc<Connection>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Future for Pausable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            let left = self.connection.pause_left(&self.cluster.schedule);
            if left == 0 {
                return self.task.as_mut().poll(context);
            }
            let pause = tokio::time::sleep(Duration::from_millis(left));
            self.pause = Some(Box::pin(pause));
        }
    }
}

/// The user as which the API server sees Volume Warden.
pub fn service_account() -> Arc<User> {
    Arc::new(User {
        name: SERVICE_ACCOUNT.into(),
        groups: vec![
            "system:serviceaccounts".into(),
            "system:serviceaccounts:volume-warden".into(),
            "system:authenticated".into(),
        ],
    })
}

/// All components. `namespace-gc` is inactive without a storage backend.
fn enabled() -> Vec<ComponentRef> {
    components::ALL.to_vec()
}

/// Parses the flags of the components, once for all histories.
fn flags(arguments: &[&'static str]) -> anyhow::Result<ArgMatches> {
    static PARSED: Mutex<BTreeMap<Vec<&'static str>, ArgMatches>> = Mutex::new(BTreeMap::new());
    let mut parsed = PARSED.lock();
    if let Some(matches) = parsed.get(arguments) {
        return Ok(matches.clone());
    }
    let all = components::ALL.iter();
    let command = all.fold(Command::new("run").no_binary_name(true), |command, each| {
        each.flags(command)
    });
    let matches = command.try_get_matches_from(arguments)?;
    parsed.insert(arguments.to_vec(), matches.clone());
    Ok(matches)
}
