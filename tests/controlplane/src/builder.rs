//! The kinds of clusters, and their options.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use tokio::sync::Semaphore;

use crate::access::install_crypto_provider;
use crate::binaries::Binaries;
use crate::bootstrap;
use crate::cluster::Cluster;
use crate::component::WITHOUT_RETENTION;
use crate::kubernetes::Kubernetes;

/// Go's error text in the components' logs.
const PORT_TAKEN: &str = "address already in use";

/// A controller that writes a ConfigMap into each namespace, for containers that call the API
/// server. KWOK runs no containers, and a test with thousands of namespaces would wait for the
/// deletion of each ConfigMap.
const UNUSED_CONTROLLER: &str = "root-ca-certificate-publisher-controller";

/// Controllers without work in a test. Each would need a service account, watches and caches.
const WITHOUT_WORK: [&str; 13] = [
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "cronjob-controller",
    "endpoints-controller",
    "endpointslice-mirroring-controller",
    "horizontal-pod-autoscaler-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "service-cidr-controller",
    "ttl-controller",
    "validatingadmissionpolicy-status-controller",
];

/// Starts a [`Cluster`]; created by [`Cluster::in_tree`], [`Cluster::without_in_tree`] or
/// [`Cluster::api_server`].
#[derive(Debug, Clone)]
#[must_use = "nothing starts before `start`"]
pub struct ClusterBuilder {
    options: Options,
}

/// The options of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) name: String,
    pub(crate) nodes: usize,
    /// Whether kube-controller-manager, kube-scheduler and KWOK run.
    pub(crate) controllers: bool,
    pub(crate) apiserver_args: Vec<String>,
    pub(crate) controller_manager_args: Vec<String>,
    pub(crate) disabled_controllers: Vec<String>,
    pub(crate) controller_manager_qps: Option<(u32, u32)>,
    retention: Retention,
    /// The version, if it is not that of [`Kubernetes::chosen`].
    kubernetes: Option<Kubernetes>,
    /// The binaries of the StatefulSet controller, if kube-controller-manager does not run it.
    pub(crate) statefulset_controller: Option<Binaries>,
}

/// Whether the StatefulSet controller owns and deletes claims, as their retention policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retention {
    On,
    Off,
}

impl ClusterBuilder {
    /// A cluster with Kubernetes' defaults.
    pub(crate) fn in_tree() -> Self {
        let options = Options {
            name: "in-tree".to_owned(),
            nodes: 2,
            controllers: true,
            apiserver_args: vec![],
            controller_manager_args: vec![],
            disabled_controllers: disabled_controllers(),
            controller_manager_qps: Some((200, 400)),
            retention: Retention::On,
            kubernetes: None,
            statefulset_controller: None,
        };
        Self { options }
    }

    /// A cluster without the built-in controllers that Volume Warden replaces.
    pub(crate) fn without_in_tree() -> Self {
        let mut builder = Self::in_tree()
            .name("no-in-tree")
            .apiserver_arg("--disable-admission-plugins=StorageObjectInUseProtection")
            .without_controllers(&[
                "persistentvolumeclaim-protection-controller",
                "persistentvolume-protection-controller",
            ]);
        builder.options.retention = Retention::Off;
        builder
    }

    /// A cluster without controllers.
    pub(crate) fn api_server() -> Self {
        let mut builder = Self::without_in_tree().name("api-server").nodes(0);
        builder.options.controllers = false;
        builder.options.retention = Retention::On;
        builder
    }

    /// Turns off the retention of claims in the StatefulSet controller. If it cannot be turned off
    /// in this version, the StatefulSet controller of 1.34 runs instead. This version skew is
    /// larger than Kubernetes supports, but the controller writes no field that has changed since.
    fn without_retention(mut self, kubernetes: Kubernetes) -> Result<Self> {
        if kubernetes.retention_can_be_off() {
            let arguments = WITHOUT_RETENTION.map(str::to_owned);
            self.options.controller_manager_args.extend(arguments);
            return Ok(self);
        }
        self = self.without_controllers(&["statefulset-controller"]);
        self.options.statefulset_controller = Some(Binaries::of(Kubernetes::V1_34)?);
        Ok(self)
    }

    /// The name of the cluster, for its directory and its messages.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = name.into();
        self
    }

    /// The number of KWOK nodes, `node-1` and on; two by default.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.options.nodes = nodes;
        self
    }

    /// Runs this version instead of that of [`Kubernetes::chosen`].
    pub fn kubernetes(mut self, version: Kubernetes) -> Self {
        self.options.kubernetes = Some(version);
        self
    }

    /// One more argument for kube-apiserver.
    pub fn apiserver_arg(mut self, argument: impl Into<String>) -> Self {
        self.options.apiserver_args.push(argument.into());
        self
    }

    /// Controllers of kube-controller-manager to disable, in addition to the default.
    pub fn without_controllers(mut self, controllers: &[&str]) -> Self {
        self.options
            .disabled_controllers
            .extend(controllers.iter().map(|&name| name.to_owned()));
        self
    }

    /// The request rate and burst of kube-controller-manager; 200 and 400 by default, so that
    /// tests need not wait for it. `None` selects its own default, 20 and 30.
    pub fn controller_manager_qps(mut self, qps_and_burst: Option<(u32, u32)>) -> Self {
        self.options.controller_manager_qps = qps_and_burst;
        self
    }

    /// Starts the cluster, and returns when its API server is ready, its nodes are Ready and pods
    /// can be created in the namespace `default`, unless it has no controllers. Builds the binaries
    /// on this user's first use.
    pub async fn start(self) -> Result<Cluster> {
        install_crypto_provider();
        let prepare = move || {
            let chosen = Kubernetes::chosen()?;
            let version = self.options.kubernetes.unwrap_or(chosen);
            let binaries = if version == chosen {
                Binaries::locate()?
            } else {
                Binaries::of(version)?
            };
            let builder = match self.options.retention {
                Retention::On => self,
                Retention::Off => self.without_retention(version)?,
            };
            anyhow::Ok((binaries, builder))
        };
        let (binaries, builder) = tokio::task::spawn_blocking(prepare).await??;
        let _turn = STARTING.acquire().await;
        let started = Instant::now();
        let cluster = match builder.attempt(&binaries).await {
            // Another process may take a free port before the component listens on it.
            Err(failure) if failure.port_taken => builder.attempt(&binaries).await,
            first => first,
        };
        let cluster = cluster.map_err(|failure| failure.error)?;
        // libtest captures this, so a failed test shows the path of its cluster's logs.
        eprintln!(
            "cluster {} is up after {:.1} s, logs in {}",
            builder.options.name,
            started.elapsed().as_secs_f32(),
            cluster.dir().display()
        );
        Ok(cluster)
    }

    async fn attempt(&self, binaries: &Binaries) -> Result<Cluster, Failure> {
        let cluster = Cluster::create(binaries, &self.options).await?;
        let Err(error) = bootstrap::bring_up(&cluster, self.options.nodes).await else {
            return Ok(cluster);
        };
        cluster.keep_logs();
        let context = format!(
            "starting the cluster {}, logs in {}",
            self.options.name,
            cluster.dir().display()
        );
        let port_taken = cluster.any_log_contains(PORT_TAKEN);
        cluster.stop().await;
        Err(Failure {
            error: error.context(context),
            port_taken,
        })
    }
}

/// At most two control planes for each core start at a time. If the control planes of all tests
/// started at once, each start would take as long as all together, which is nearly as long as some
/// tests and kube-apiserver itself wait.
static STARTING: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    Semaphore::new(2 * cores)
});

/// The controllers that are disabled in each cluster. Benchmarks, which have no debug assertions,
/// measure Kubernetes as it is, except for [`UNUSED_CONTROLLER`].
fn disabled_controllers() -> Vec<String> {
    let without_work = WITHOUT_WORK.iter().filter(|_| cfg!(debug_assertions));
    let all = [UNUSED_CONTROLLER].into_iter().chain(without_work.copied());
    all.map(str::to_owned).collect()
}

/// The error of a failed start.
struct Failure {
    error: anyhow::Error,
    port_taken: bool,
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self {
            error,
            port_taken: false,
        }
    }
}
