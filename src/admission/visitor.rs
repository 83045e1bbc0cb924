//! The state of the client of one connection.

use super::seats::{Seat, Seats};
use crate::{listener::Place, telemetry::Metrics};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// The client of one connection. It is unauthenticated until a request on this connection shows a
/// secret path.
pub(super) struct Visitor {
    authenticated: CancellationToken,
    place: Mutex<Option<Place>>,
    seat: OnceLock<Seat>,
    seats: Arc<Seats>,
    metrics: Arc<Metrics>,
    refusal: OnceLock<&'static str>,
}

impl Visitor {
    pub(super) fn new(place: Place, seats: Arc<Seats>, metrics: Arc<Metrics>) -> Self {
        Self {
            authenticated: CancellationToken::new(),
            place: Mutex::new(Some(place)),
            seat: OnceLock::new(),
            seats,
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

    /// Completes when the connection must close to free its seat for another one.
    pub(super) async fn closing(&self) {
        self.authenticated().await;
        match self.seat.get() {
            Some(seat) => seat.closing().await,
            None => std::future::pending().await,
        }
    }

    /// Records that the client has sent the beginning of a TLS handshake. Of otherwise equal
    /// connections, one that has sent nothing is evicted before this one.
    pub(super) fn advance(&self) {
        let place = self.place.lock();
        if let Some(place) = &*place {
            place.advance();
        }
    }

    /// Returns whether another client from the same address has sent a secret path, or none from any
    /// address yet.
    pub(super) fn may_be_trusted(&self) -> bool {
        let place = self.place.lock();
        place.as_ref().is_some_and(Place::may_be_trusted)
    }

    /// Records that a request with a secret path is under way. Returns false if the connection has
    /// no seat and gets none, because every seat has a request under way.
    pub(super) fn begin(&self) -> bool {
        if let Some(seat) = self.seat.get() {
            seat.busy();
            return true;
        }
        let Some(seat) = self.seats.take() else {
            return false;
        };
        self.metrics.admission.connected(1);
        // HTTP/1.1 has one request at a time, so no other request has set the seat meanwhile.
        let _ = self.seat.set(seat);
        self.authenticated.cancel();
        let mut place = self.place.lock();
        if let Some(place) = place.take() {
            place.trust();
        }
        true
    }

    /// Records that the request under way is answered.
    pub(super) fn end(&self) {
        if let Some(seat) = self.seat.get() {
            seat.idle();
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

impl Drop for Visitor {
    fn drop(&mut self) {
        if self.seat.get().is_some() {
            self.metrics.admission.connected(-1);
        }
    }
}
