//! The connections of one process, which break, are held, or end with the process.

use crate::schedule::Schedule;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// The connections of one process. A crash cuts them: requests on their way to the API server may
/// still arrive, and no answer is received.
#[derive(Default)]
pub struct Connection {
    cut: AtomicBool,
    /// The virtual millisecond until which all messages are held.
    held_until: AtomicU64,
    /// The virtual millisecond until which the tasks of the process do not run.
    paused_until: AtomicU64,
    sent: AtomicU64,
    /// The number of the request at which the process crashes, not counting those of the leader
    /// election, and whether that request takes effect.
    crash: Mutex<Option<(u64, bool)>>,
    counts: Mutex<BTreeMap<u64, u64>>,
}

impl Connection {
    /// Cuts the connection permanently.
    pub fn cut(&self) {
        self.cut.store(true, Relaxed);
    }

    /// Returns whether the connection is cut.
    pub fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// Holds all messages until this virtual millisecond.
    pub fn hold(&self, until: u64) {
        self.held_until.fetch_max(until, Relaxed);
    }

    /// Stops the tasks of the process until this virtual millisecond.
    pub fn pause(&self, until: u64) {
        self.paused_until.fetch_max(until, Relaxed);
    }

    /// Returns the milliseconds until the tasks of the process run again.
    pub fn pause_left(&self, schedule: &Schedule) -> u64 {
        match self.paused_until.load(Relaxed) {
            0 => 0,
            until => until.saturating_sub(schedule.now()),
        }
    }

    /// Waits until the process runs. While it is paused, it receives nothing.
    pub async fn resumed(&self, schedule: &Schedule, order: u64) {
        loop {
            match self.pause_left(schedule) {
                0 => return,
                left => schedule.turn(left, order).await,
            }
        }
    }

    /// Makes the process crash at its request with this number, before or after the request takes
    /// effect.
    pub fn crash_at(&self, request: u64, after_effect: bool) {
        *self.crash.lock() = Some((request, after_effect));
    }

    /// Returns the additional delay of a message that is sent now.
    pub fn delay(&self, now: u64) -> u64 {
        self.held_until.load(Relaxed).saturating_sub(now)
    }

    /// Counts a request. Returns its number among the requests with this identity, and whether the
    /// process crashes before (`Some(false)`) or after (`Some(true)`) it takes effect.
    pub fn count(&self, identity: u64, counts: bool) -> (u64, Option<bool>) {
        let number = if counts {
            self.sent.fetch_add(1, Relaxed)
        } else {
            u64::MAX
        };
        let crash = *self.crash.lock();
        let crash = crash
            .filter(|(at, _)| *at == number)
            .map(|(_, after)| after);
        let mut counts = self.counts.lock();
        let count = counts.entry(identity).or_default();
        *count += 1;
        (*count, crash)
    }
}
