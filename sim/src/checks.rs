//! The invariants: what holds at each request and at each state of the store.
//!
//! The names `S1`, `S2` and so on are those of `docs/simulation.md`.

mod claims;
mod leases;
mod ledger;
mod lists;
mod owners;
mod quiet;
mod rebinding;
mod refusals;
mod refused_restores;
mod repeated;
mod requests;
mod reservations;
mod restore_events;
mod retention;
mod reviews;
mod rivals;
mod sending;
mod silence;
mod trash;
mod volumes;
mod writes;

use crate::plan::Plan;
use bytes::Bytes;
use http::Request;
use leases::Leases;
use ledger::Ledger;
use lists::Lists;
use parking_lot::Mutex;
use sending::Ages;
use serde_json::Value;
use silence::Watches;
use volume_warden_apiserver_model::{Change, WebhookCall};
use writes::{Write, Writes};

pub use lists::Listing;
pub use quiet::{at_rest, was_returned};
pub use repeated::Repeated;
pub use reviews::{is_allowed, patched};
pub use silence::Listening;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant: a number such as `S1`, `liveness` or `panic`.
    pub invariant: &'static str,
    /// The virtual millisecond at which it did not hold.
    pub at: u64,
    /// What was observed.
    pub message: String,
}

/// The invariants of one history, and what they have observed so far.
pub struct Checks {
    state: Mutex<State>,
}

struct State {
    ledger: Ledger,
    lists: Lists,
    writes: Writes,
    leases: Leases,
    watches: Watches,
    violations: Vec<Violation>,
}

impl Checks {
    /// Creates the invariants for a history of this plan.
    pub fn new(plan: &Plan) -> Self {
        Self {
            state: Mutex::new(State {
                ledger: Ledger::new(plan),
                lists: Lists::default(),
                writes: Writes::default(),
                leases: Leases::default(),
                watches: Watches::default(),
                violations: Vec::new(),
            }),
        }
    }

    /// Checks a request that a client sends now. Returns a write for [`Self::took_effect`].
    pub fn sent(&self, client: &str, now: u64, request: &Request<Bytes>) -> Option<Write> {
        let mut state = self.state.lock();
        let found = requests::check(&state.ledger, client, now, request)
            .or_else(|| restore_events::check(&state.ledger, client, now, request));
        state.report(now, found);
        state.ledger.sent(client, now, request);
        let write = writes::write_of(&state.ledger.plan, client, now, request)?;
        let found = state.writes.send(&state.ledger, &write);
        state.report(now, found);
        Some(write)
    }

    /// Records that a write succeeded.
    pub fn took_effect(&self, write: &Write) {
        self.state.lock().writes.took_effect(write);
    }

    /// Checks a change of the store that is made now.
    pub fn changed(&self, now: u64, change: &Change) {
        let mut state = self.state.lock();
        state.ledger.apply(now, change);
        let State { ledger, leases, .. } = &mut *state;
        let found = leases.changed(&ledger.plan, now, change);
        state.report(now, found);
        let ledger = &state.ledger;
        let ages = Ages::on_arrival(&ledger.plan);
        let found =
            judge(ledger, now, change, ages).or_else(|| requests::check_write(ledger, change));
        state.report(now, found);
    }

    /// Checks the answer to a review that began at the virtual millisecond `began`.
    pub fn reviewed(&self, began: u64, now: u64, call: &WebhookCall<'_>, answer: &Value) {
        let mut state = self.state.lock();
        let found = reviews::check(&state.ledger, began, call, answer)
            .or_else(|| rebinding::check(&state.ledger, began, call, answer));
        state.report(now, found);
    }

    /// Checks the answer to a repeated review: that of the object which an earlier review returned.
    pub fn repeated(&self, now: u64, review: &Repeated, call: &WebhookCall<'_>, answer: &Value) {
        let mut state = self.state.lock();
        let found = repeated::check(&state.ledger, review, call, answer);
        state.report(now, found);
    }

    /// Checks, at the end of a history, whatever has to end within a time limit.
    pub fn finish(&self, now: u64) {
        let mut state = self.state.lock();
        let plan = &state.ledger.plan;
        let late = state.leases.late(plan, now);
        let silent = state.watches.silent(plan, now);
        state.report(now, late);
        state.report(now, silent);
    }

    fn with_lists(&self, now: u64, learn: impl FnOnce(&mut Lists, &Plan) -> Found) {
        let mut state = self.state.lock();
        let State { ledger, lists, .. } = &mut *state;
        let found = learn(lists, &ledger.plan);
        state.report(now, found);
    }

    fn with_watches(&self, now: u64, learn: impl FnOnce(&mut Watches, &Plan) -> Found) {
        let mut state = self.state.lock();
        let State {
            ledger, watches, ..
        } = &mut *state;
        let found = learn(watches, &ledger.plan);
        state.report(now, found);
    }

    /// Adds a violation that was found outside of these checks.
    pub fn add(&self, invariant: &'static str, now: u64, message: String) {
        self.state.lock().report(now, Some((invariant, message)));
    }

    /// Returns the violations so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.state.lock().violations.clone()
    }

    /// Returns what the invariants remember, for the check at the end.
    pub fn with_ledger<T>(&self, read: impl FnOnce(&Ledger) -> T) -> T {
        read(&self.state.lock().ledger)
    }
}

impl State {
    fn report(&mut self, at: u64, found: Found) {
        if let Some((invariant, message)) = found {
            self.violations.push(Violation {
                invariant,
                at,
                message,
            });
        }
    }
}

/// Checks a change of a claim or a volume that is made now, or is about to be requested. `ages`
/// says how long ago a state on which the change relies may have ended.
fn judge(ledger: &Ledger, now: u64, change: &Change, ages: Ages) -> Found {
    claims::check(ledger, now, change, ages)
        .or_else(|| volumes::check(ledger, now, change, ages))
        .or_else(|| owners::check(ledger, now, change, ages))
        .or_else(|| reservations::check(ledger, now, change))
}

/// The name of an invariant that does not hold, and what was observed; none if all hold.
type Found = Option<(&'static str, String)>;
