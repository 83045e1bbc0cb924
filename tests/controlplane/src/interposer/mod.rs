//! A server between one client and the API server that simulates network faults.

mod fault;
mod rule;
mod server;
mod stream;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

pub use fault::RuleHandle;
pub use rule::Rule;

use crate::access::{client_config, install_crypto_provider};
use crate::cluster::Cluster;
use crate::kubeconfig;
use fault::Faults;

/// A received request, including those that a rule held, answered or dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, without its question mark.
    pub query: String,
}

/// Forwards HTTP/1.1 requests on loopback to the API server, unless a [`Rule`] applies.
///
/// If the API server is unreachable, the interposer drops the client's connection. It runs on its
/// own thread and runtime.
#[derive(Debug)]
pub struct Interposer {
    kubeconfig: PathBuf,
    faults: Arc<Faults>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Interposer {
    /// Starts an interposer for the client that owns `kubeconfig`: it forwards with those
    /// credentials.
    pub fn start(cluster: &Cluster, kubeconfig: impl AsRef<Path>) -> Result<Self> {
        install_crypto_provider();
        let original = kubeconfig.as_ref();
        let faults = Arc::<Faults>::default();
        let (stop, stopped) = oneshot::channel();
        let (report, started) = mpsc::channel();
        let server = Server {
            kubeconfig: original.to_owned(),
            faults: Arc::clone(&faults),
            report,
            stopped,
        };
        let thread = thread::Builder::new()
            .name("interposer".to_owned())
            .spawn(move || server.run())?;
        let port = started.recv().context("the interposer's thread ended")??;
        let own = cluster.dir().join(format!("interposer-{port}.kubeconfig"));
        let interposer = Self {
            kubeconfig: own,
            faults,
            stop: Some(stop),
            thread: Some(thread),
        };
        kubeconfig::redirect(
            original,
            &interposer.kubeconfig,
            &format!("http://127.0.0.1:{port}"),
        )?;
        Ok(interposer)
    }

    /// Starts an interposer for a client with the permissions of this service account.
    pub async fn for_service_account(
        cluster: &Cluster,
        namespace: &str,
        name: &str,
    ) -> Result<Self> {
        let account = cluster.service_account_kubeconfig(namespace, name, None);
        Self::start(cluster, account.await?)
    }

    /// A kubeconfig for the client, with the interposer's address.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Adds a rule, active until its handle is dropped. Several rules may apply to one request, in
    /// the order in which they were added.
    #[must_use = "dropping the handle removes the rule"]
    pub fn add(&self, rule: Rule) -> RuleHandle {
        self.faults.add(rule)
    }

    /// All requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Seen> {
        self.faults.requests()
    }

    /// The number of requests so far with this method whose path contains `part`.
    pub fn count(&self, method: &str, part: &str) -> usize {
        let seen = self.requests();
        let wanted = seen.iter().filter(|seen| seen.method == method);
        wanted.filter(|seen| seen.path.contains(part)).count()
    }

    /// Waits until the requests so far satisfy the condition; the error shows the last ones.
    pub async fn wait_for(&self, wanted: impl Fn(&[Seen]) -> bool, limit: Duration) -> Result<()> {
        let mut changes = self.faults.changes();
        let wait = async {
            while !wanted(&self.requests()) {
                changes.changed().await?;
            }
            anyhow::Ok(())
        };
        timeout(limit, wait).await.unwrap_or_else(|_| {
            let requests = self.requests();
            let last = &requests[requests.len().saturating_sub(10)..];
            Err(anyhow::anyhow!(
                "waited {limit:?} for requests; the last of {}: {last:#?}",
                requests.len()
            ))
        })
    }
}

impl Drop for Interposer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread has already reported its error.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Server {
    kubeconfig: PathBuf,
    faults: Arc<Faults>,
    report: mpsc::Sender<Result<u16>>,
    stopped: oneshot::Receiver<()>,
}

impl Server {
    fn run(self) {
        let report = self.report.clone();
        if let Err(error) = self.serve() {
            // Fails if the receiver is dropped, because the server had already started.
            let _ = report.send(Err(error));
        }
    }

    fn serve(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let client = kube::Client::try_from(client_config(&self.kubeconfig).await?)?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            self.report.send(Ok(listener.local_addr()?.port()))?;
            tokio::select! {
                never = server::accept(listener, client, self.faults) => match never {},
                _ = self.stopped => Ok(()),
            }
        })
    }
}
