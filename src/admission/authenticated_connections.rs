//! The authenticated connections: their clients, which are API servers, have sent a request with a
//! secret path.

use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Limits the number of authenticated connections, each of which has a slot. When all slots are
/// taken, a new connection replaces the one that has been idle for longest: API servers keep idle
/// connections for 90 s and reuse the most recent one first, so they need the longest idle one
/// least. If the new connection waited instead, its review would wait for up to 90 s.
pub(super) struct AuthenticatedConnections {
    limit: usize,
    /// A logical clock: it counts events, so that no two of them have the same time.
    ticks: AtomicU64,
    state: Mutex<BTreeMap<u64, Arc<ConnectionState>>>,
}

struct ConnectionState {
    /// The tick since which the connection has no request under way, or [`BUSY`] while it has one.
    idle_since: AtomicU64,
    close: CancellationToken,
}

const BUSY: u64 = u64::MAX;

impl AuthenticatedConnections {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            ticks: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Takes a slot for a connection with a request under way. It closes the connection that has
    /// been idle for longest if all slots are taken; none if no connection is idle.
    pub(super) fn acquire(self: &Arc<Self>) -> Option<AuthenticatedConnection> {
        let mut state = self.state.lock();
        if state.len() >= self.limit {
            let idle = |(_, taken): &(&u64, &Arc<ConnectionState>)| {
                taken.idle_since.load(Ordering::Relaxed)
            };
            let (number, taken) = state.iter().min_by_key(idle)?;
            if taken.idle_since.load(Ordering::Relaxed) == BUSY {
                return None;
            }
            taken.close.cancel();
            let number = *number;
            state.remove(&number);
        }
        let number = self.tick();
        let taken = Arc::new(ConnectionState {
            idle_since: AtomicU64::new(BUSY),
            close: CancellationToken::new(),
        });
        state.insert(number, taken.clone());
        Some(AuthenticatedConnection {
            authenticated_connections: self.clone(),
            number,
            taken,
        })
    }

    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }
}

/// The slot of one authenticated connection, released when dropped.
pub(super) struct AuthenticatedConnection {
    authenticated_connections: Arc<AuthenticatedConnections>,
    number: u64,
    taken: Arc<ConnectionState>,
}

impl AuthenticatedConnection {
    /// Records that a request is under way on this connection.
    pub(super) fn busy(&self) {
        self.taken.idle_since.store(BUSY, Ordering::Relaxed);
    }

    /// Records that no request is under way on this connection: HTTP/1.1 has one request at a time.
    pub(super) fn idle(&self) {
        let now = self.authenticated_connections.tick();
        self.taken.idle_since.store(now, Ordering::Relaxed);
    }

    /// Completes when the connection must close, after its current request, to free its slot.
    pub(super) fn closing(&self) -> WaitForCancellationFutureOwned {
        self.taken.close.clone().cancelled_owned()
    }
}

impl Drop for AuthenticatedConnection {
    fn drop(&mut self) {
        self.authenticated_connections
            .state
            .lock()
            .remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_closing(connection: &AuthenticatedConnection) -> bool {
        connection.taken.close.is_cancelled()
    }

    #[test]
    fn the_longest_idle_connection_gives_way() {
        let authenticated_connections = Arc::new(AuthenticatedConnections::new(3));
        let taken = [0; 3].map(|_| authenticated_connections.acquire().expect("a free one"));
        taken[0].idle();
        taken[1].idle();
        taken[0].busy();
        taken[0].idle();
        let fourth = authenticated_connections.acquire().expect("an idle one's");
        assert_eq!(
            [&taken[0], &taken[1], &taken[2]].map(is_closing),
            [false, true, false]
        );
        assert!(!is_closing(&fourth));
        drop(taken);
        assert_eq!(
            authenticated_connections.state.lock().len(),
            1,
            "the first two are not removed twice"
        );
    }

    #[test]
    fn while_all_are_busy_there_is_no_slot() {
        let authenticated_connections = Arc::new(AuthenticatedConnections::new(2));
        let [first, _second] =
            [0; 2].map(|_| authenticated_connections.acquire().expect("a free one"));
        assert!(authenticated_connections.acquire().is_none());
        first.idle();
        assert!(authenticated_connections.acquire().is_some());
        assert!(is_closing(&first));
    }
}
