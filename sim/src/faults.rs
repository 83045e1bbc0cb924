//! What goes wrong between a client and the API server.

use crate::random::{generator, happens};
use std::hash::Hash;

/// How often things go wrong in a history, each in one of a thousand messages, until an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Requests that the API server, or a proxy in front of it, answers with an error.
    pub refused: u32,
    /// Requests that are lost before they take effect.
    pub lost: u32,
    /// Requests that take effect, and whose answers are lost.
    pub unanswered: u32,
    /// Requests that arrive up to twenty seconds late.
    pub held: u32,
    /// Watch events after which the watch ends.
    pub watch_ends: u32,
    /// Watch events after which the watch is silent.
    pub watch_silent: u32,
    /// Whether a silent watch never ends. Otherwise it ends when the faults end.
    pub silent_for_ever: bool,
    /// Maximum delay of a watch in milliseconds.
    pub watch_lag: u64,
    /// Maximum time that a request, or its answer, is under way, in milliseconds.
    pub latency: u64,
    /// The virtual millisecond at which the faults end.
    pub end: u64,
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It takes effect, and the answer arrives.
    Delivered,
    /// It is answered with this status, without an effect.
    Refused(u16),
    /// It is lost, and the client sees that the connection broke.
    Lost,
    /// It takes effect, and the client sees that the connection broke.
    Unanswered,
}

/// What happens to one request, and how long it takes.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// What happens.
    pub fate: Fate,
    /// Milliseconds until the request arrives.
    pub request: u64,
    /// Milliseconds until the answer arrives.
    pub answer: u64,
    /// The order among messages of the same millisecond.
    pub order: u64,
}

/// What happens to one watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFate {
    /// The watch continues with it.
    Delivered,
    /// The watch ends before it.
    Ends,
    /// Neither it nor a later event is delivered.
    Silent,
}

/// The answers of an overloaded API server, and of a proxy in front of it.
const REFUSALS: [u16; 6] = [404, 409, 429, 500, 503, 504];
/// Maximum delay of a request that is held.
const HELD: u64 = 20_000;

impl Faults {
    /// Decides about a request at this time. `request` identifies it among all of the history.
    pub fn passage(&self, seed: u64, now: u64, request: impl Hash) -> Passage {
        let mut random = generator(seed, request);
        let mut passage = Passage {
            fate: Fate::Delivered,
            request: random.u64(1..=self.latency.max(1)),
            answer: random.u64(1..=self.latency.max(1)),
            order: random.u64(..),
        };
        if now >= self.end {
            return passage;
        }
        let kinds = [self.refused, self.lost, self.unanswered];
        let [refused, lost, unanswered] = kinds.map(|per_mille| happens(&mut random, per_mille));
        if happens(&mut random, self.held) {
            passage.request += random.u64(1..HELD);
        }
        passage.fate = match () {
            () if refused => Fate::Refused(REFUSALS[random.usize(..REFUSALS.len())]),
            () if lost => Fate::Lost,
            () if unanswered => Fate::Unanswered,
            () => Fate::Delivered,
        };
        passage
    }

    /// Decides about an event of a watch: what happens, its delay, and its order.
    pub fn watch_event(&self, seed: u64, now: u64, event: impl Hash) -> (WatchFate, u64, u64) {
        let mut random = generator(seed, event);
        let (lag, order) = (random.u64(1..=self.watch_lag.max(1)), random.u64(..));
        if now >= self.end {
            return (WatchFate::Delivered, lag.min(20), order);
        }
        let fate = if happens(&mut random, self.watch_ends) {
            WatchFate::Ends
        } else if happens(&mut random, self.watch_silent) {
            WatchFate::Silent
        } else {
            WatchFate::Delivered
        };
        (fate, lag, order)
    }
}
