//! The shared state of one history: the API server, the schedule, the faults and the record.

use crate::{checks::Checks, faults::Faults, schedule::Schedule, trace::Trace};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use time::{OffsetDateTime, macros::datetime};
use volume_warden::clock::Clock;
use volume_warden_apiserver_model::ApiServer;

/// The wall clock at the beginning of each history.
pub const EPOCH: OffsetDateTime = datetime!(2026-01-01 00:00:00 UTC);

/// One simulated cluster.
pub struct Cluster {
    /// The seed from which all decisions of the history follow.
    pub seed: u64,
    /// The API server.
    pub server: ApiServer,
    /// The order of all messages.
    pub schedule: Arc<Schedule>,
    /// The faults of the network.
    pub faults: Faults,
    /// The record of what has happened.
    pub trace: Arc<Trace>,
    /// The invariants, which are checked at each request and each change.
    pub checks: Arc<Checks>,
    /// The requests in progress.
    pub activity: Activity,
}

/// Counts the requests in progress, except watches and the leader election, which never pause.
#[derive(Default)]
pub struct Activity {
    under_way: AtomicU64,
    last: AtomicU64,
}

impl Activity {
    /// Records that a request begins.
    pub fn begin(&self) {
        self.under_way.fetch_add(1, Relaxed);
    }

    /// Records that a request ends in this virtual millisecond.
    pub fn end(&self, now: u64) {
        self.under_way.fetch_sub(1, Relaxed);
        self.last.fetch_max(now, Relaxed);
    }

    /// Returns whether no request is in progress, and none was since this virtual millisecond.
    pub fn is_at_rest_since(&self, since: u64) -> bool {
        self.under_way.load(Relaxed) == 0 && self.last.load(Relaxed) < since
    }
}

/// Returns a wall clock that follows the virtual time, `offset` seconds ahead.
pub fn wall_clock(schedule: &Arc<Schedule>, offset: i64) -> Clock {
    let schedule = schedule.clone();
    Clock::new(move || {
        let elapsed = std::time::Duration::from_millis(schedule.now());
        EPOCH + elapsed + time::Duration::seconds(offset)
    })
}
