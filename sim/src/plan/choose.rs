//! Chooses the plan of a seed.

use super::{Disruption, Plan, expires, narrow, rebinds, undelete_window};
use crate::{
    faults::Faults,
    random::{digest, generator, happens},
    replica::Start,
    steps::{self, Step},
};

/// The end, in milliseconds, of the time in which users act and faults occur.
const BUSY: u64 = 12_000;
/// The end of the faults in a history in which claims expire.
const EXPIRY_ENDS: u64 = 90_000;
/// The end of the faults in a history in which claims are rebound.
const REBINDING_ENDS: u64 = 36_000;
/// The milliseconds at the beginning that are for the first LISTs and the leader election.
pub(super) const SETTLING: u64 = 3_000;

/// One of four histories in which claims expire has this flag.
pub(super) const ONE_EXPIRY: &str = "--expiry-max-deletions=1";

impl Plan {
    /// Returns the plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = generator(seed, "plan");
        let long = random.u32(0..64) == 0;
        let replicas = if random.u32(0..3) == 0 { 2 } else { 1 };
        let length = random.usize(3..=10);
        let mut times: Vec<u64> = (0..length).map(|_| random.u64(SETTLING..BUSY)).collect();
        times.sort_unstable();
        // Nearly simultaneous steps cause races.
        for index in 1..times.len() {
            if random.bool() {
                times[index] = times[index - 1] + random.u64(0..200);
            }
        }
        times.sort_unstable();
        let steps = steps::choose(&mut random, length, undelete_window(seed).is_some());
        let count = [0, 0, 1, 1, 2][random.usize(..5)];
        let disruptions = (0..count)
            .map(|_| disruption(&mut random, replicas))
            .collect();
        let start = start(seed, &mut random);
        // More claims than the limit permits, so that the limit is reached although pods use some.
        let expiring = if start.flags.contains(&ONE_EXPIRY) {
            3
        } else {
            2
        };
        let plan = Self {
            seed,
            in_tree_owners: digest((seed, "in-tree owners")).is_multiple_of(2)
                && !steps.iter().any(is_ambiguous),
            start,
            replicas,
            clock_skew: if random.u32(0..4) == 0 {
                random.i64(-4_000..4_000)
            } else {
                0
            },
            steps: if expires(seed) {
                steps::expiring(&mut random, SETTLING, expiring)
            } else if rebinds(seed) {
                steps::rebinding(&mut random, SETTLING)
            } else {
                times.into_iter().zip(steps).collect()
            },
            faults: Faults {
                silent_for_ever: long,
                end: if expires(seed) {
                    EXPIRY_ENDS
                } else if rebinds(seed) {
                    REBINDING_ENDS
                } else {
                    BUSY
                },
                ..faults(&mut random)
            },
            disruptions,
            longest_page: if random.u32(0..8) == 0 { 2 } else { 0 },
            long,
        };
        narrow::focused(plan)
    }
}

/// Whether the step creates a set whose claims have the names of those of another set. Volume
/// Warden removes the owners of a claim that may belong to two sets. The StatefulSet controller
/// adds them again at its next sync, which no change of a claim causes. The simulated one also acts
/// at those changes, so the two would never come to rest.
fn is_ambiguous(step: &Step) -> bool {
    matches!(step, Step::CreateSet { set: 3 | 4, .. })
}

fn start(seed: u64, random: &mut fastrand::Rng) -> Start {
    let mut flags = match random.u32(0..8) {
        0 => vec!["--finished-pods=release"],
        1 => vec!["--release-mode=soft"],
        _ => vec![],
    };
    if expires(seed) && (seed / 16).is_multiple_of(4) {
        flags.push(ONE_EXPIRY);
    }
    Start {
        flags,
        namespace: match random.u32(0..16) {
            0 => Some("ns"),
            1 => Some("other"),
            _ => None,
        },
        dry_run: random.u32(0..16) == 0,
        max_in_flight: if random.bool() { 1 } else { 32 },
    }
}

fn faults(random: &mut fastrand::Rng) -> Faults {
    let latency = [2, 10, 40, 300][random.usize(..4)];
    let watch_lag = [2, 20, 300, 3_000][random.usize(..4)];
    let quiet = Faults {
        latency,
        watch_lag,
        end: BUSY,
        ..Faults::default()
    };
    let is_quiet = happens(random, 300);
    let mut rate = |most: u32| {
        if random.bool() {
            random.u32(0..most)
        } else {
            0
        }
    };
    if is_quiet {
        quiet
    } else {
        Faults {
            refused: rate(120),
            lost: rate(80),
            unanswered: rate(80),
            held: rate(60),
            watch_ends: rate(60),
            watch_silent: rate(20),
            ..quiet
        }
    }
}

fn disruption(random: &mut fastrand::Rng, replicas: usize) -> (u64, Disruption) {
    let replica = random.usize(..replicas);
    let disruption = match random.u32(0..10) {
        0..=3 => Disruption::CrashAt {
            replica,
            request: random.u64(8..40),
            after_effect: random.bool(),
        },
        4 => Disruption::Hold {
            replica,
            milliseconds: random.u64(500..18_000),
        },
        5 => Disruption::Restart { replica },
        6 => Disruption::EndWatches,
        7 | 8 => Disruption::Pause {
            replica,
            milliseconds: random.u64(500..18_000),
        },
        _ => Disruption::Compact,
    };
    (random.u64(0..BUSY), disruption)
}
