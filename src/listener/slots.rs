//! Limits the connections of clients that have not authenticated yet.
//!
//! There are few slots, and a new connection always gets one. When all slots are taken, an older
//! connection is evicted: it is closed. These rules select it, each among the connections that the
//! rule before leaves:
//!
//! 1. Connections from a trusted address are evicted only if there are no others. An address is
//!    trusted for a day after a client from it has authenticated; the last 32 of them are
//!    remembered.
//! 2. A connection is evicted from the address with the most connections. The new connection is
//!    counted, but not evicted.
//! 3. A connection that has sent nothing useful is evicted before one that has.
//! 4. The oldest connection is evicted first.
//!
//! So one address cannot keep out another one, and many addresses together cannot keep out a
//! trusted address. If only connections from trusted addresses are left, each has a minimum time
//! before it is evicted, and a new connection waits: an API server may open hundreds of connections
//! at once, and each needs some time for its handshake.
//!
//! IPv6 addresses are counted by their /64 network, because a host may choose any address in it,
//! and trusted one by one: the pods of a node may have addresses in the network of an API server.

use crate::hashing::HashMap;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit},
    time::{Instant, timeout},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Maximum number of remembered trusted addresses; more than a cluster has API servers.
const MAX_TRUSTED: usize = 32;

/// How long an address is trusted after a client from it has authenticated. The address of an API
/// server, or of a proxy before it, may belong to a pod later. An API server that has called
/// nothing for this long has to authenticate again.
const TRUST_DURATION: Duration = Duration::from_hours(24);

/// The slots of connections. A connection keeps its slot until the server releases it.
pub(super) struct ConnectionSlots {
    capacity: usize,
    /// Minimum time of a connection from a trusted address before it may be evicted.
    min_time: Duration,
    state: Mutex<State>,
    /// Notified when a slot is released.
    released: Notify,
}

#[derive(Default)]
struct State {
    /// The number of the next connection. Numbers ascend, so the smallest is that of the oldest
    /// connection.
    next: u64,
    taken: BTreeMap<u64, SlotState>,
    /// The addresses from which clients have authenticated, each with the last time; the most
    /// recent one is last.
    authenticated: Vec<(IpAddr, Instant)>,
}

struct SlotState {
    address: IpAddr,
    since: Instant,
    active: bool,
    evicted: CancellationToken,
}

impl ConnectionSlots {
    /// Creates slots for at most `capacity` connections. One from a trusted address has at least
    /// `min_time` before it is evicted.
    pub(super) fn new(capacity: usize, min_time: Duration) -> Self {
        Self {
            capacity,
            min_time,
            state: Mutex::default(),
            released: Notify::new(),
        }
    }

    /// Waits until a connection from this address can get a slot without the eviction of a
    /// connection from a trusted address that has had less than the minimum time.
    pub(super) async fn wait_for_slot(&self, address: IpAddr) {
        while let Some(wait) = self.wait(address.to_canonical()) {
            // A slot that is released before this waits is remembered: only one task waits.
            let _ = timeout(wait, self.released.notified()).await;
        }
    }

    /// Returns after which time the connection that would be evicted may be; none if that is now,
    /// or if a slot is free.
    fn wait(&self, newcomer: IpAddr) -> Option<Duration> {
        let state = self.state.lock();
        if state.taken.len() < self.capacity {
            return None;
        }
        let victim = state.taken.get(&state.victim(newcomer)?)?;
        let is_trusted = state.trusts(victim.address);
        let left = self.min_time.saturating_sub(victim.since.elapsed());
        (is_trusted && !left.is_zero()).then_some(left)
    }

    /// Gives a slot to a connection from this address, and evicts another connection if all slots
    /// are taken.
    pub(super) fn acquire(
        self: &Arc<Self>,
        address: IpAddr,
        socket: Option<OwnedSemaphorePermit>,
    ) -> ConnectionSlot {
        let (address, mut state) = (address.to_canonical(), self.state.lock());
        if state.taken.len() >= self.capacity
            && let Some(victim) = state.victim(address)
            && let Some(victim) = state.taken.remove(&victim)
        {
            victim.evicted.cancel();
        }
        let (number, evicted) = (state.next, CancellationToken::new());
        let taken = SlotState {
            address,
            since: Instant::now(),
            active: false,
            evicted: evicted.clone(),
        };
        state.next += 1;
        state.taken.insert(number, taken);
        ConnectionSlot {
            slots: self.clone(),
            number,
            address,
            evicted,
            _socket: socket,
        }
    }
}

impl State {
    /// Returns the connection to evict, so that a new connection from `newcomer` has a slot.
    fn victim(&self, newcomer: IpAddr) -> Option<u64> {
        let mut held: HashMap<Network, usize> = HashMap::default();
        held.insert(Network::of(newcomer), 1);
        for taken in self.taken.values() {
            *held.entry(Network::of(taken.address)).or_default() += 1;
        }
        let order = |(number, taken): &(&u64, &SlotState)| {
            let held = held.get(&Network::of(taken.address)).copied();
            let fewest = usize::MAX - held.unwrap_or_default();
            let trusted = self.trusts(taken.address);
            (trusted, fewest, taken.active, **number)
        };
        let victim = self.taken.iter().min_by_key(order);
        victim.map(|(number, _)| *number)
    }

    fn trusted(&self) -> impl Iterator<Item = IpAddr> {
        let authenticated = self.authenticated.iter();
        let trusted = authenticated.filter(|(_, at)| at.elapsed() < TRUST_DURATION);
        trusted.map(|(address, _)| *address)
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted().any(|each| each == address)
    }

    fn trust(&mut self, address: IpAddr) {
        self.authenticated.retain(|(each, _)| *each != address);
        if self.authenticated.len() == MAX_TRUSTED {
            self.authenticated.remove(0);
        }
        self.authenticated.push((address, Instant::now()));
    }
}

/// The slot of one connection, released when dropped.
pub struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    number: u64,
    address: IpAddr,
    evicted: CancellationToken,
    _socket: Option<OwnedSemaphorePermit>,
}

impl ConnectionSlot {
    /// Completes when the connection is evicted and must be closed.
    pub fn evicted(&self) -> WaitForCancellationFutureOwned {
        self.evicted.clone().cancelled_owned()
    }

    /// Records that the client has sent something useful, such as the beginning of a TLS
    /// handshake.
    pub fn mark_active(&self) {
        if let Some(taken) = self.slots.state.lock().taken.get_mut(&self.number) {
            taken.active = true;
        }
    }

    /// Returns whether the address of this connection is trusted, or no address is trusted yet: the
    /// first connections of an API server may be slow, too.
    pub fn may_be_trusted(&self) -> bool {
        let state = self.slots.state.lock();
        state.trusts(self.address) || state.trusted().next().is_none()
    }

    /// Records that the client has authenticated: connections from its address are evicted last.
    /// The connection keeps its slot.
    pub fn trust_address(&self) {
        self.slots.state.lock().trust(self.address);
    }

    /// Records that the client has authenticated, and releases the slot, which the connection no
    /// longer needs.
    pub fn authenticate(self) -> TrustedAddress {
        self.trust_address();
        TrustedAddress {
            slots: self.slots.clone(),
            address: self.address,
        }
    }
}

/// The address of a client that has authenticated.
pub struct TrustedAddress {
    slots: Arc<ConnectionSlots>,
    address: IpAddr,
}

impl TrustedAddress {
    /// Records that the client has authenticated again, on the same connection.
    pub fn renew(&self) {
        self.slots.state.lock().trust(self.address);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.state.lock().taken.remove(&self.number);
        self.slots.released.notify_one();
    }
}

/// The addresses that one client controls: one IPv4 address, or a /64 network of IPv6 addresses,
/// because a host may choose any address in it.
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
