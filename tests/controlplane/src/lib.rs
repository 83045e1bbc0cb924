//! A real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler and KWOK nodes, for the tests, the demo and the benchmarks of Volume Warden.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use volume_warden_controlplane::Cluster;
//!
//! let cluster = Cluster::without_in_tree().nodes(1).start().await?;
//! println!("{}", cluster.kubectl(&["get", "nodes"]).await?);
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! The binaries are built once with Go into a per-user cache, see [`Binaries::locate`]. All
//! processes of a cluster end when the process that started it ends for any reason, see
//! [`Cluster`].

mod access;
mod audit;
mod binaries;
mod binder;
mod bootstrap;
mod builder;
mod cert_manager;
mod cluster;
mod component;
mod connect_proxy;
mod credentials;
mod csi;
mod csi_binaries;
mod directory;
mod documented_events;
mod eventually;
mod go_build;
mod guardian;
mod helm;
mod interposer;
mod kubeconfig;
mod kubectl;
mod kubernetes;
mod process;
mod prometheus;
mod provisioned;
mod refusals;
mod second_apiserver;
mod services;
mod util;
mod warden;

pub use access::install_crypto_provider;
pub use audit::{AuditLog, Call, Calls, Mark};
pub use binaries::Binaries;
pub use builder::ClusterBuilder;
pub use cluster::Cluster;
pub use component::Component;
pub use connect_proxy::Webhooks;
pub use csi::{Csi, CsiCall};
pub use eventually::{DEFAULT_TIMEOUT, Outcome, eventually, eventually_within};
pub use guardian::Guardian;
pub use helm::Helm;
pub use interposer::{Interposer, Rule, RuleHandle, Seen};
pub use kubernetes::Kubernetes;
pub use process::Process;
pub use prometheus::Prometheus;
pub use second_apiserver::SecondApiserver;
pub use warden::{Warden, WardenBuilder};
