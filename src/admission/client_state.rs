//! The state of the client of one connection.

use super::authenticated_connections::{AuthenticatedConnection, AuthenticatedConnections};
use crate::{
    listener::{ConnectionSlot, TrustedAddress},
    telemetry::Metrics,
};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// The client of one connection. It is unauthenticated until a request on this connection shows a
/// secret path.
pub(super) struct ClientState {
    authenticated: CancellationToken,
    /// The slot in the listener; none once the client has authenticated.
    slot: Mutex<Option<ConnectionSlot>>,
    authenticated_slot: OnceLock<AuthenticatedConnection>,
    address: OnceLock<TrustedAddress>,
    authenticated_connections: Arc<AuthenticatedConnections>,
    metrics: Arc<Metrics>,
    refusal: OnceLock<&'static str>,
}

impl ClientState {
    pub(super) fn new(
        slot: ConnectionSlot,
        authenticated_connections: Arc<AuthenticatedConnections>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            authenticated: CancellationToken::new(),
            slot: Mutex::new(Some(slot)),
            authenticated_slot: OnceLock::new(),
            address: OnceLock::new(),
            authenticated_connections,
            metrics,
            refusal: OnceLock::new(),
        }
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.authenticated.is_cancelled()
    }

    /// Completes when this client has sent a request with a secret path.
    pub(super) async fn authenticated(&self) {
        self.authenticated.cancelled().await;
    }

    /// Completes when the connection must close to free its authenticated slot for another one.
    pub(super) async fn closing(&self) {
        self.authenticated().await;
        match self.authenticated_slot.get() {
            Some(connection) => connection.closing().await,
            None => std::future::pending().await,
        }
    }

    /// Records that the client has sent the beginning of a TLS handshake. Of otherwise equal
    /// connections, one that has sent nothing is evicted before this one.
    pub(super) fn mark_active(&self) {
        let slot = self.slot.lock();
        if let Some(slot) = &*slot {
            slot.mark_active();
        }
    }

    /// Returns whether the address of the client is trusted, or none is; see
    /// [`ConnectionSlot::may_be_trusted`].
    pub(super) fn may_be_trusted(&self) -> bool {
        let slot = self.slot.lock();
        slot.as_ref().is_some_and(ConnectionSlot::may_be_trusted)
    }

    /// Records that a request with a secret path is under way. Returns false if the connection has
    /// no authenticated slot and gets none, because each of them has a request under way.
    pub(super) fn begin(&self) -> bool {
        if let Some(connection) = self.authenticated_slot.get() {
            connection.busy();
            if let Some(address) = self.address.get() {
                address.renew();
            }
            return true;
        }
        let Some(connection) = self.authenticated_connections.acquire() else {
            return false;
        };
        self.metrics.admission.connected(1);
        // HTTP/1.1 has one request at a time, so no other request has set it meanwhile.
        let _ = self.authenticated_slot.set(connection);
        self.authenticated.cancel();
        let mut slot = self.slot.lock();
        if let Some(slot) = slot.take() {
            let _ = self.address.set(slot.authenticate());
        }
        true
    }

    /// Records that the request under way is answered.
    pub(super) fn end(&self) {
        if let Some(connection) = self.authenticated_slot.get() {
            connection.idle();
        }
    }

    /// Records why a request of this client was refused, for the metrics. The connection ends after
    /// the refusal.
    pub(super) fn refuse(&self, why: &'static str) {
        let _ = self.refusal.set(why);
    }

    /// Returns why a request of this client was refused, if it was.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        self.refusal.get().copied()
    }
}

impl Drop for ClientState {
    fn drop(&mut self) {
        if self.authenticated_slot.get().is_some() {
            self.metrics.admission.connected(-1);
        }
    }
}
