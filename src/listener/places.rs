//! The places of connections that have not authenticated yet.
//!
//! There are few of them, and a new connection always gets one. When all are taken, one connection
//! loses its place, by these rules in order:
//!
//! 1. an address that was trusted lately keeps its connections as long as there are others;
//! 2. the address that holds most places, the new connection included, loses one;
//! 3. of its connections, one that has sent nothing useful goes before one that has;
//! 4. the oldest goes first.
//!
//! So one address cannot keep another out, and many addresses together cannot keep out one that
//! has been trusted before.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Trusted addresses that are remembered: more than a cluster has API servers.
const REMEMBERED: usize = 32;

/// The places of connections that have not authenticated yet.
pub(super) struct Places {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of the next connection. They ascend, so the smallest is the oldest.
    next: u64,
    taken: BTreeMap<u64, Taken>,
    /// The last one trusted comes last.
    trusted: Vec<Network>,
}

struct Taken {
    network: Network,
    advanced: bool,
    evicted: CancellationToken,
}

impl Places {
    /// At most `capacity` at once.
    pub(super) fn new(capacity: usize) -> Self {
        let state = Mutex::default();
        Self { capacity, state }
    }

    /// A place for a connection from that address; another connection loses its own if need be.
    pub(super) fn admit(
        self: &Arc<Self>,
        address: IpAddr,
        socket: Option<OwnedSemaphorePermit>,
    ) -> Place {
        let mut state = self.lock();
        let (number, evicted) = (state.next, CancellationToken::new());
        let taken = Taken {
            network: Network::of(address),
            advanced: false,
            evicted: evicted.clone(),
        };
        state.next += 1;
        state.taken.insert(number, taken);
        if state.taken.len() > self.capacity
            && let Some(victim) = state.victim(number)
            && let Some(victim) = state.taken.remove(&victim)
        {
            victim.evicted.cancel();
        }
        Place {
            places: self.clone(),
            number,
            evicted,
            _socket: socket,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Which connection loses its place to the connection `newest`.
    fn victim(&self, newest: u64) -> Option<u64> {
        let mut held: HashMap<Network, usize> = HashMap::new();
        for taken in self.taken.values() {
            *held.entry(taken.network).or_default() += 1;
        }
        let others = self.taken.iter().filter(|(number, _)| **number != newest);
        let order = |(number, taken): &(&u64, &Taken)| {
            let fewest = usize::MAX - held.get(&taken.network).copied().unwrap_or_default();
            let trusted = self.trusted.contains(&taken.network);
            (trusted, fewest, taken.advanced, **number)
        };
        others.min_by_key(order).map(|(number, _)| *number)
    }

    fn trust(&mut self, network: Network) {
        self.trusted.retain(|each| *each != network);
        if self.trusted.len() == REMEMBERED {
            self.trusted.remove(0);
        }
        self.trusted.push(network);
    }
}

/// The place of one connection, released when dropped.
pub struct Place {
    places: Arc<Places>,
    number: u64,
    evicted: CancellationToken,
    _socket: Option<OwnedSemaphorePermit>,
}

impl Place {
    /// Completes when the connection has lost its place and has to be closed.
    pub fn evicted(&self) -> WaitForCancellationFutureOwned {
        self.evicted.clone().cancelled_owned()
    }

    /// The client has sent something that idle connections do not send.
    pub fn advance(&self) {
        if let Some(taken) = self.places.lock().taken.get_mut(&self.number) {
            taken.advanced = true;
        }
    }

    /// The client is no stranger: connections from its address are the last to lose their places.
    pub fn recognize(&self) {
        let mut state = self.places.lock();
        if let Some(taken) = state.taken.get(&self.number) {
            let network = taken.network;
            state.trust(network);
        }
    }

    /// The same, and its connection needs no place any more.
    pub fn trust(self) {
        self.recognize();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().taken.remove(&self.number);
    }
}

/// What one client has to itself: an IPv4 address, or the /64 of an IPv6 address, in which a host
/// may choose any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Network(IpAddr);

impl Network {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)))
            }
            v4 @ IpAddr::V4(_) => Self(v4),
        }
    }
}

#[cfg(test)]
mod tests;
