//! Runs many histories on all cores.

use crate::{plan::Plan, random::digest, world};
use std::{
    collections::HashSet,
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

/// What many histories showed.
#[derive(Debug, Default)]
pub struct Summary {
    /// Number of histories.
    pub histories: u64,
    /// Number of histories in which different things happened.
    pub distinct: usize,
    /// Number of messages in all histories.
    pub messages: u64,
    /// The seeds of the histories in which an invariant did not hold.
    pub failed: Vec<u64>,
}

/// Returns the seed of a history: the `number`th of a run with this seed.
pub fn seed_of(seed: u64, number: u64) -> u64 {
    digest((seed, number))
}

/// Runs the histories with the numbers from 0 on, and stops early after `most_failed` failures.
///
/// # Errors
/// When the simulation itself is wrong.
pub fn explore(seed: u64, histories: u64, most_failed: usize) -> anyhow::Result<Summary> {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let summary = Mutex::new((Summary::default(), HashSet::new()));
    let work = || -> anyhow::Result<()> {
        while !stop.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            if number >= histories {
                break;
            }
            let seed = seed_of(seed, number);
            let outcome = world::run(&Plan::new(seed), false)?;
            let mut guard = summary.lock().unwrap_or_else(PoisonError::into_inner);
            let (summary, traces) = &mut *guard;
            summary.histories += 1;
            summary.messages += outcome.messages;
            traces.insert(outcome.trace);
            if !outcome.violations.is_empty() {
                summary.failed.push(seed);
                stop.store(summary.failed.len() >= most_failed, Relaxed);
            }
        }
        Ok(())
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("the simulation panicked"))??;
        }
        Ok(())
    })?;
    let (mut summary, traces) = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.distinct = traces.len();
    Ok(summary)
}
