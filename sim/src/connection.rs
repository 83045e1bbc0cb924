//! The connections of one process, which break, are held, or end with the process.

use crate::schedule::Schedule;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// The connections of one process. A crash cuts them: what is under way to the API server may still
/// arrive, and nothing comes back.
#[derive(Default)]
pub struct Connection {
    cut: AtomicBool,
    /// The virtual millisecond until which all messages are held.
    held_until: AtomicU64,
    /// The virtual millisecond until which the tasks of the process do not run.
    paused_until: AtomicU64,
    sent: AtomicU64,
    /// The number of the request at which the process crashes, the leader election not counted, and
    /// whether that one takes effect.
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

    /// Lets the tasks of the process wait until this virtual millisecond.
    pub fn pause(&self, until: u64) {
        self.paused_until.fetch_max(until, Relaxed);
    }

    /// Returns for how many milliseconds the tasks of the process do not run.
    pub fn pause_left(&self, schedule: &Schedule) -> u64 {
        match self.paused_until.load(Relaxed) {
            0 => 0,
            until => until.saturating_sub(schedule.now()),
        }
    }

    /// Waits until the process runs. It sees nothing of what arrives while it is paused.
    pub async fn resumed(&self, schedule: &Schedule, order: u64) {
        loop {
            match self.pause_left(schedule) {
                0 => return,
                left => schedule.turn(left, order).await,
            }
        }
    }

    /// Lets the process crash at its request with this number, before or after its effect.
    pub fn crash_at(&self, request: u64, after_effect: bool) {
        *self.crash.lock() = Some((request, after_effect));
    }

    /// Returns the additional delay of a message that is sent now.
    pub fn delay(&self, now: u64) -> u64 {
        self.held_until.load(Relaxed).saturating_sub(now)
    }

    /// Counts a request. Returns its number among those that look the same, and whether the process
    /// crashes at it: before (`Some(false)`) or after (`Some(true)`) its effect.
    pub fn count(&self, identity: u64, counts: bool) -> (u64, Option<bool>) {
        let number = match counts {
            true => self.sent.fetch_add(1, Relaxed),
            false => u64::MAX,
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
