//! The API of a StorageOS cluster, in memory, with whatever may go wrong: what the tests of its client talk to.
//!
//! It knows a user, tokens that end when a test says so, namespaces with versions and volumes, and serves them on loopback over HTTP or TLS. Every
//! request is counted. A [`Fault`] is queued for an [`Endpoint`] and spoils so many of the next requests to it.

mod api;
mod fault;
mod pki;
mod serve;
mod state;

pub use fault::{Endpoint, FOR_EVER, Fault};
pub use pki::{Authority, Pair};
pub use state::{Request, TokenIn};

use anyhow::{Context, Result};
use state::State;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::net::TcpSocket;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The user that there is at first.
pub const USER: &str = "admin";
/// Its password.
pub const PASSWORD: &str = "first-secret";

type Shared = Arc<Mutex<State>>;

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct StorageOs {
    address: SocketAddr,
    scheme: &'static str,
    state: Shared,
    _stop: DropGuard,
}

/// How to serve.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// With that certificate, over TLS.
    pub tls: Option<Pair>,
    /// Only clients with a certificate of that authority, as PEM.
    pub clients: Option<String>,
    /// Below that path, which begins with a slash.
    pub path: &'static str,
}

/// An address that refuses connections, until a server opens there.
#[derive(Debug)]
pub struct Closed {
    socket: TcpSocket,
    address: SocketAddr,
}

impl Closed {
    /// A free port on loopback. It is bound, so no other process gets it.
    ///
    /// # Errors
    /// When there is none.
    pub fn new() -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves there from now on.
    ///
    /// # Errors
    /// When the certificate does not do.
    pub fn open(self, serving: &Serving) -> Result<StorageOs> {
        let acceptor = serving
            .tls
            .as_ref()
            .map(|pair| pki::acceptor(pair, serving.clients.as_deref()))
            .transpose()?;
        let state = Shared::default();
        let listener = self.socket.listen(1024).context("cannot listen")?;
        let stop = CancellationToken::new();
        let site = serve::Site {
            router: api::router(state.clone(), serving.path),
            state: state.clone(),
            acceptor,
        };
        tokio::spawn(serve::accept(listener, site, stop.clone()));
        Ok(StorageOs {
            address: self.address,
            scheme: if serving.tls.is_some() {
                "https"
            } else {
                "http"
            },
            state,
            _stop: stop.drop_guard(),
        })
    }
}

impl StorageOs {
    /// One over plain HTTP.
    ///
    /// # Errors
    /// When there is no port.
    pub fn start() -> Result<Self> {
        Closed::new()?.open(&Serving::default())
    }

    /// As a user would configure it.
    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Makes a namespace and returns its id. One of the same name is replaced, as if it had been deleted and made again.
    pub fn create(&self, name: &str) -> String {
        self.state().create(name)
    }

    /// Removes the namespace. False if it does not exist.
    pub fn remove(&self, name: &str) -> bool {
        self.state().remove(name)
    }

    /// Puts a volume into a namespace.
    pub fn fill(&self, name: &str) {
        self.state()
            .change(name, |namespace| namespace.volumes += 1);
    }

    /// Takes all its volumes away.
    pub fn empty(&self, name: &str) {
        self.state().change(name, |namespace| namespace.volumes = 0);
    }

    /// Writes it, so that it has another version.
    pub fn touch(&self, name: &str) {
        self.state().change(name, |_| {});
    }

    /// The names of all namespaces, sorted.
    pub fn names(&self) -> Vec<String> {
        self.state().names()
    }

    /// The version of a namespace.
    pub fn version(&self, name: &str) -> Option<String> {
        self.state().version(name)
    }

    /// Puts something else into the list, raw JSON.
    pub fn list_also(&self, entry: serde_json::Value) {
        self.state().others.push(entry);
    }

    /// Has a fault happen to the next so many requests to an endpoint, after those already queued.
    pub fn fault(&self, endpoint: Endpoint, fault: Fault, times: usize) {
        self.state().faults.push(endpoint, fault, times);
    }

    /// Clears all queued faults.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Changes the password; who is logged in stays so.
    pub fn set_password(&self, password: &str) {
        self.state().password = password.to_owned();
    }

    /// No token that there is does any longer.
    pub fn end_sessions(&self) {
        self.state().sessions.clear();
    }

    /// Sets the token lifetime to report, in seconds. Tokens are valid until [`end_sessions`] regardless.
    ///
    /// [`end_sessions`]: Self::end_sessions
    pub fn report_life(&self, seconds: Option<u64>) {
        self.state().reported_life = seconds;
    }

    /// Where tokens stand in answers from now on.
    pub fn set_token_in(&self, place: TokenIn) {
        self.state().token_in = place;
    }

    /// How many requests there were.
    pub fn calls(&self, endpoint: Endpoint) -> usize {
        let state = self.state();
        let requests = state.requests.iter();
        requests
            .filter(|request| request.endpoint == endpoint)
            .count()
    }

    /// All requests, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// The tokens granted so far, in order.
    pub fn granted(&self) -> Vec<String> {
        self.state().granted.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A handler that panicked leaves nothing half done that matters here.
fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
