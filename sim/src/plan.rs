//! What happens in a history: the steps of users, the faults, and the disruptions. A plan follows
//! from the seed, and a failing one is shrunk by leaving parts out.

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
        /// The number of the request, from its start.
        request: u64,
        /// Whether the request takes effect.
        after_effect: bool,
    },
    /// The messages of the replica are held, so its requests arrive late.
    Hold {
        /// The index of the replica.
        replica: usize,
        /// For so many milliseconds.
        milliseconds: u64,
    },
    /// The tasks of the replica do not run, as in a process that gets no CPU time, and what they
    /// spawned sees no answer.
    Pause {
        /// The index of the replica.
        replica: usize,
        /// For so many milliseconds.
        milliseconds: u64,
    },
    /// The replica is stopped in order and started again.
    Restart {
        /// The index of the replica.
        replica: usize,
    },
    /// All watches end, as at a restart of the API server.
    EndWatches,
    /// The API server forgets its history, so that watches have to begin again with a LIST.
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
    /// The most objects in a page of a LIST; 0 for the number that is asked for.
    pub(crate) longest_page: usize,
    /// Whether the end of the history is followed for twenty minutes, to see that nothing is
    /// written any more.
    pub(crate) long: bool,
}

impl Plan {
    /// How long the deletion of a claim can be undone, in five histories of sixteen. A short window
    /// ends among the steps, a long one after them, and one for rebinding after the history.
    pub fn undelete_window(&self) -> Option<&'static str> {
        undelete_window(self.seed)
    }

    /// For how long no pod may use a claim before it expires.
    pub fn expire_unused(&self) -> Option<&'static str> {
        expires(self.seed).then_some("1s")
    }

    /// Whether a claim that is created again gets the volume of the deleted claim of its name, in one
    /// history of sixteen.
    pub fn rebinds(&self) -> bool {
        rebinds(self.seed)
    }

    /// How many claims one process lets expire in an hour; none if there are always fewer.
    pub(crate) fn max_expiries(&self) -> Option<usize> {
        self.start.flags.contains(&ONE_EXPIRY).then_some(1)
    }

    /// For how many milliseconds a history with such a limit goes on, so that claims beyond the limit
    /// would expire. Each waits for the two looks at the claim before it, a minute apart.
    pub(crate) fn beyond_the_limit(&self) -> u64 {
        match self.max_expiries() {
            Some(_) => 130_000,
            None => 0,
        }
    }

    /// Whether nothing goes wrong in this history: what is sent arrives, and the watches are not
    /// later than all are at most.
    pub(crate) fn is_calm(&self) -> bool {
        let late = self.faults.late_watch.is_some() || self.faults.absence.is_some();
        self.is_undisturbed() && !late
    }

    /// Whether no request is lost, delayed or refused, no watch ends or is silent, and no replica is
    /// disturbed.
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

    /// How many processes this history starts at most.
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

/// By how many seconds the clock of a leader may be wrong, so that it still purges.
pub(crate) const CLOCK_TOLERANCE: i64 = 290;
/// By how many seconds the clock of a leader may be slow, so that it may still purge: `MAX_SKEW` in
/// `src/components/pvc_trash/confirm.rs`, and the time of the messages.
const SLOWEST: i64 = 310;

/// How late a write may be in a cluster without faults, besides what the network takes: the pauses in
/// which several reads are gathered.
const PROMPT: u64 = 500;
/// How late a write may be after a fault: the time limits of the read and of the write, and the time
/// that a request may be held.
const LATE: u64 = 45_000;
/// The number of writes that [`Step::DeleteMany`] causes: those of its claims and of their volumes.
const WRITES_OF_MANY: u64 = 90;

impl Plan {
    /// By how many milliseconds a volume is purged too late. A leader with a slow clock reads the
    /// clock of the API server only when the window has ended by its own. A leader whose clock is
    /// far ahead begins the window by its own.
    pub(crate) fn purge_delay(&self) -> u64 {
        let skew = match self.undelete_window() {
            // It does not end within a history.
            None | Some(HOUR) => 0,
            Some(_) if (-SLOWEST..=CLOCK_TOLERANCE).contains(&self.clock_skew) => {
                self.clock_skew.min(0)
            }
            Some(_) => self.clock_skew.max(0),
        };
        skew.unsigned_abs() * 1_000
    }

    /// By how many milliseconds a leader with a slow clock lets claims expire too late: pvc-expiry
    /// reads the clock of the API server only when a claim is due by its own.
    pub(crate) fn expiry_delay(&self) -> u64 {
        match self.expire_unused() {
            Some(_) => self.clock_skew.min(0).unsigned_abs() * 1_000,
            None => 0,
        }
    }

    /// For how many milliseconds a state may have ended when something is written that rests on what
    /// a watch delivered, and does not wait for other writes.
    pub(crate) fn late(&self) -> u64 {
        self.prompt() + self.faults.longest_lag() + 2 * self.faults.latency
    }

    /// For how many milliseconds a state may have ended when something is written that rests on a
    /// live read. It may wait for the writes that are due before it.
    pub(crate) fn late_live(&self) -> u64 {
        let crowd = self.steps.iter().any(|(_, step)| *step == Step::DeleteMany);
        let waiting = if crowd { WRITES_OF_MANY } else { 0 };
        self.prompt() + waiting * 2 * self.faults.latency
    }

    /// For how many milliseconds a write that does not test the version of its object may wait after
    /// its decision, generously: for its turn among all others, and for a LIST with several pages.
    pub(crate) fn longest_wait(&self) -> u64 {
        let crowd = self.steps.iter().any(|(_, step)| *step == Step::CreateMany);
        let messages = if crowd { 400 } else { 80 };
        messages * self.faults.latency
    }

    fn prompt(&self) -> u64 {
        match self.is_undisturbed() {
            true => PROMPT + 6 * self.faults.latency,
            false => LATE,
        }
    }
}
