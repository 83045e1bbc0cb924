//! What is known of the client of one connection.

use super::seats::{Seat, Seats};
use crate::{listener::Place, telemetry::Metrics};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio_util::sync::CancellationToken;

/// A stranger until a request shows a secret path, and authenticated from then on.
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

    /// Completes when a request has shown a secret path.
    pub(super) async fn authenticated(&self) {
        self.authenticated.cancelled().await;
    }

    /// Completes when the connection has to make room for another.
    pub(super) async fn closing(&self) {
        self.authenticated().await;
        match self.seat.get() {
            Some(seat) => seat.closing().await,
            None => std::future::pending().await,
        }
    }

    /// It has sent a TLS handshake's beginning.
    pub(super) fn advance(&self) {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = &*place {
            place.advance();
        }
    }

    /// A request with a secret path is under way. Whether there is a place for the connection.
    pub(super) fn begin(&self) -> bool {
        if let Some(seat) = self.seat.get() {
            seat.busy();
            return true;
        }
        let Some(seat) = self.seats.take() else {
            return false;
        };
        self.metrics.admission.connected(1);
        // HTTP/1.1 has one request at a time: no other has set it meanwhile.
        let _ = self.seat.set(seat);
        self.authenticated.cancel();
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = place.take() {
            place.trust();
        }
        true
    }

    /// The request is answered.
    pub(super) fn end(&self) {
        if let Some(seat) = self.seat.get() {
            seat.idle();
        }
    }

    /// Its request is answered with a refusal, after which the connection ends. Why, for the
    /// metrics.
    pub(super) fn refuse(&self, why: &'static str) {
        let _ = self.refusal.set(why);
    }

    /// Why its request was refused, if it was.
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
