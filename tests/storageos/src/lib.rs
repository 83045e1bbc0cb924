//! An in-memory StorageOS API with simulated faults, for the tests of its client.
//!
//! The server has a user, tokens that expire, and namespaces with versions and volumes. It listens
//! on loopback over HTTP or TLS, and records every request. A [`Fault`] is queued for an
//! [`Endpoint`], and applies to a number of the next requests to that endpoint.

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
    time::Duration,
};
use tokio::net::TcpSocket;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The initial user.
pub const USER: &str = "admin";
/// The initial password.
pub const PASSWORD: &str = "first-secret";
/// How long a token is valid, as in a real StorageOS.
pub const LIFETIME: Duration = Duration::from_secs(300);

type Shared = Arc<Mutex<State>>;

/// A running server; it stops when dropped.
#[derive(Debug)]
pub struct StorageOs {
    address: SocketAddr,
    scheme: &'static str,
    state: Shared,
    _stop: DropGuard,
}

/// Options of the server.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// The certificate, for TLS.
    pub tls: Option<Pair>,
    /// Accepts only clients with a certificate of this CA, which is PEM.
    pub clients: Option<String>,
    /// Serves the API below this path, which begins with a slash.
    pub path: &'static str,
}

/// An address that refuses connections until a server starts there.
#[derive(Debug)]
pub struct Closed {
    socket: TcpSocket,
    address: SocketAddr,
}

impl Closed {
    /// Reserves a free port on loopback: it is bound, so no other process can take it.
    ///
    /// # Errors
    /// If no port is free.
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

    /// Starts the server at the address.
    ///
    /// # Errors
    /// If the certificate is invalid.
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
    /// Starts a server over plain HTTP.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start() -> Result<Self> {
        Closed::new()?.open(&Serving::default())
    }

    /// The URL of the server, as a user would configure it.
    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Creates a namespace and returns its id. A namespace of the same name is replaced, as if it
    /// had been deleted and recreated.
    pub fn create(&self, name: &str) -> String {
        self.state().create(name)
    }

    /// Deletes a namespace. Returns false if it does not exist.
    pub fn remove(&self, name: &str) -> bool {
        self.state().remove(name)
    }

    /// Adds a volume to a namespace. The version of the namespace does not change.
    pub fn fill(&self, name: &str) {
        self.state()
            .named(name)
            .for_each(|namespace| namespace.volumes += 1);
    }

    /// Deletes all volumes of a namespace. The version of the namespace does not change.
    pub fn empty(&self, name: &str) {
        self.state()
            .named(name)
            .for_each(|namespace| namespace.volumes = 0);
    }

    /// Updates a namespace, which changes its version.
    pub fn touch(&self, name: &str) {
        self.state().touch(name);
    }

    /// The names of all namespaces, sorted.
    pub fn names(&self) -> Vec<String> {
        self.state().names()
    }

    /// The version of a namespace.
    pub fn version(&self, name: &str) -> Option<String> {
        self.state().version(name)
    }

    /// Adds raw JSON to the list of namespaces.
    pub fn list_also(&self, entry: serde_json::Value) {
        self.state().others.push(entry);
    }

    /// Applies a fault to the next `times` requests to an endpoint, after the faults that are
    /// already queued.
    pub fn fault(&self, endpoint: Endpoint, fault: Fault, times: usize) {
        self.state().faults.push(endpoint, fault, times);
    }

    /// Removes all queued faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Changes the password. Existing tokens stay valid.
    pub fn set_password(&self, password: &str) {
        self.state().password = password.to_owned();
    }

    /// Invalidates all tokens.
    pub fn end_sessions(&self) {
        self.state().end_sessions();
    }

    /// Advances the clock of the server, so that tokens may have expired.
    pub fn advance(&self, time: Duration) {
        self.state().advanced += time;
    }

    /// Sets the lifetime in seconds that responses announce from now on. Tokens in fact stay valid
    /// for [`LIFETIME`].
    pub fn announce_lifetime(&self, seconds: Option<u64>) {
        self.state().announced_lifetime = seconds;
    }

    /// Sets the place of the token in responses from now on.
    pub fn set_token_in(&self, place: TokenIn) {
        self.state().token_in = place;
    }

    /// The number of requests so far.
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

/// Locks the state even if a handler has panicked, which leaves no inconsistent state.
fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
