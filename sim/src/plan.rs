//! What happens in a history: the steps of users, the faults, and the disruptions. The seed
//! decides the plan, and a failing plan is shrunk by leaving parts out.

mod choose;
mod narrow;

use crate::{faults::Faults, replica::Start, steps::Step};
use choose::ONE_EXPIRY;

/// A disruption of a replica or of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// The replica crashes at its request with this number and is started again.
    CrashAt {
        /// The index of the replica.
        replica: usize,
        /// The number of the request, counted from the start of the replica.
        request: u64,
        /// Whether the request takes effect.
        after_effect: bool,
    },
    /// The messages of the replica are held, so its requests arrive late.
    Hold {
        /// The index of the replica.
        replica: usize,
        /// The duration in milliseconds.
        milliseconds: u64,
    },
    /// The tasks of the replica do not run, as in a process that gets no CPU time, and the tasks
    /// that they spawned get no answers.
    Pause {
        /// The index of the replica.
        replica: usize,
        /// The duration in milliseconds.
        milliseconds: u64,
    },
    /// The replica is shut down gracefully and started again.
    Restart {
        /// The index of the replica.
        replica: usize,
    },
    /// All watches end, as at a restart of the API server.
    EndWatches,
    /// The API server compacts its history, so that watches have to begin again with a LIST.
    Compact,
}

/// The plan of one history.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all decisions.
    pub(crate) seed: u64,
    /// How the replicas are started.
    pub(crate) start: Start,
    /// Number of replicas.
    pub(crate) replicas: usize,
    /// By how many seconds the wall clock of the second replica, or of the only one, is ahead.
    pub(crate) clock_skew: i64,
    /// Steps of users, each with its virtual millisecond.
    pub(crate) steps: Vec<(u64, Step)>,
    /// Faults of the network.
    pub(crate) faults: Faults,
    /// Disruptions, each with its virtual millisecond.
    pub(crate) disruptions: Vec<(u64, Disruption)>,
    /// Maximum number of objects in a page of a LIST; 0 means the limit of the request.
    pub(crate) longest_page: usize,
    /// Whether the StatefulSet controller writes the owners of claims, as that of Kubernetes 1.32
    /// and later does.
    pub(crate) in_tree_owners: bool,
    /// Whether the history continues for twenty minutes after its end, to check that nothing is
    /// written any more.
    pub(crate) long: bool,
}

impl Plan {
    /// How long the deletion of a claim can be undone; none in eleven of sixteen histories. A short
    /// window ends during the steps, a long one after them, and one for rebinding after the
    /// history.
    pub fn undelete_window(&self) -> Option<&'static str> {
        undelete_window(self.seed)
    }

    /// The time after which a claim that no pod uses expires; none if claims do not expire.
    pub fn expire_unused(&self) -> Option<&'static str> {
        expires(self.seed).then_some("1s")
    }

    /// Whether a claim that is created again gets the volume of the deleted claim of its name, in
    /// one history of sixteen.
    pub fn rebinds(&self) -> bool {
        rebinds(self.seed)
    }

    /// Maximum number of claims that one process lets expire in an hour; none if the limit is never
    /// reached.
    pub(crate) fn max_expiries(&self) -> Option<usize> {
        self.start.flags.contains(&ONE_EXPIRY).then_some(1)
    }

    /// For how many more milliseconds a history with such a limit continues. Claims beyond the
    /// limit would expire in that time: each waits for the two evaluations, a minute apart, at the
    /// one before.
    pub(crate) fn beyond_the_limit(&self) -> u64 {
        match self.max_expiries() {
            Some(_) => 130_000,
            None => 0,
        }
    }

    /// Whether this history has no faults: every message arrives, no watch is later than the
    /// maximum delay of all watches, and no controller is absent.
    pub(crate) fn is_calm(&self) -> bool {
        let late = self.faults.late_watch.is_some() || self.faults.absence.is_some();
        self.is_undisturbed() && !late
    }

    /// Whether no request is lost, delayed or refused, no watch ends or is silent, and no replica
    /// is disturbed.
    fn is_undisturbed(&self) -> bool {
        let Faults {
            refused,
            lost,
            unanswered,
            held,
            watch_ends,
            watch_silent,
            ..
        } = self.faults;
        let faults = refused + lost + unanswered + held + watch_ends + watch_silent;
        faults == 0 && self.disruptions.is_empty()
    }

    /// Maximum number of processes that this history starts.
    pub(crate) fn processes(&self) -> usize {
        let starts = |each: &&(u64, Disruption)| {
            matches!(
                each.1,
                Disruption::CrashAt { .. } | Disruption::Restart { .. }
            )
        };
        self.replicas + self.disruptions.iter().filter(starts).count()
    }
}

fn undelete_window(seed: u64) -> Option<&'static str> {
    match seed % 16 {
        0 | 8 => Some("4s"),
        4 | EXPIRING => Some("30s"),
        REBINDING => Some(HOUR),
        _ => None,
    }
}

/// The window of histories in which claims are rebound.
const HOUR: &str = "1h";

/// The remainder of the seeds of histories in which claims are rebound.
const REBINDING: u64 = 2;

fn rebinds(seed: u64) -> bool {
    seed % 16 == REBINDING
}

/// The remainder of the seeds of histories in which claims expire.
const EXPIRING: u64 = 12;

/// Whether unused claims expire, in one history of sixteen.
fn expires(seed: u64) -> bool {
    seed % 16 == EXPIRING
}

/// Maximum error, in seconds, of the clock of a leader that certainly still purges.
pub(crate) const CLOCK_TOLERANCE: i64 = 290;
/// Maximum number of seconds by which the clock of a leader that may still purge is slow:
/// `MAX_SKEW` in `src/components/pvc_trash/confirm.rs`, and the time of the messages.
const SLOWEST: i64 = 310;

/// Maximum delay of a write, in milliseconds, in a cluster without faults, in addition to the delay
/// of the network: the pauses in which several reads are collected.
const PROMPT: u64 = 500;
/// Maximum delay of a write, in milliseconds, after a fault: the time limits of the read and of the
/// write, and the time that a request may be held.
const LATE: u64 = 45_000;
/// The number of writes that [`Step::DeleteMany`] causes: those of its claims and of their volumes.
const WRITES_OF_MANY: u64 = 90;

impl Plan {
    /// By how many milliseconds a volume may be purged too late. A leader with a slow clock reads
    /// the clock of the API server only when the window has ended by the leader's own clock. A
    /// leader whose clock is far ahead begins the window by its own clock.
    pub(crate) fn purge_delay(&self) -> u64 {
        let skew = match self.undelete_window() {
            // The window does not end within a history.
            None | Some(HOUR) => 0,
            Some(_) if (-SLOWEST..=CLOCK_TOLERANCE).contains(&self.clock_skew) => {
                self.clock_skew.min(0)
            }
            Some(_) => self.clock_skew.max(0),
        };
        skew.unsigned_abs() * 1_000
    }

    /// By how many milliseconds a claim may expire too late if the clock of the leader is slow:
    /// pvc-expiry reads the clock of the API server only when a claim is due by the leader's clock.
    pub(crate) fn expiry_delay(&self) -> u64 {
        match self.expire_unused() {
            Some(_) => self.clock_skew.min(0).unsigned_abs() * 1_000,
            None => 0,
        }
    }

    /// Maximum time, in milliseconds, between the end of a state and a write that relies on it. The
    /// write relies on what a watch delivered, and does not wait for other writes.
    pub(crate) fn late(&self) -> u64 {
        self.prompt() + self.faults.longest_lag() + 2 * self.faults.latency
    }

    /// Maximum time, in milliseconds, between the end of a state and a write that relies on it. The
    /// write relies on a live read, and may wait for the writes that are due before it.
    pub(crate) fn late_live(&self) -> u64 {
        let crowd = self.steps.iter().any(|(_, step)| *step == Step::DeleteMany);
        let waiting = if crowd { WRITES_OF_MANY } else { 0 };
        self.prompt() + waiting * 2 * self.faults.latency
    }

    /// Upper bound of the time, in milliseconds, between the decision for a write that does not
    /// test the version of its object and the write: it waits for other writes and for a LIST in
    /// pages.
    pub(crate) fn longest_wait(&self) -> u64 {
        let crowd = self.steps.iter().any(|(_, step)| *step == Step::CreateMany);
        let messages = if crowd { 400 } else { 80 };
        messages * self.faults.latency
    }

    fn prompt(&self) -> u64 {
        if self.is_undisturbed() {
            PROMPT + 6 * self.faults.latency
        } else {
            LATE
        }
    }
}
