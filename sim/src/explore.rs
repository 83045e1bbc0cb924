//! Runs many histories on all cores.

use crate::{plan::Plan, random::digest, world};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashSet},
    num::NonZero,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::{Duration, Instant},
};

/// Real time after which a history counts as endless. A normal one takes some milliseconds.
const ENDLESS: Duration = Duration::from_secs(120);

/// The results of many histories.
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
/// Calls `on_failure` with the seed of each failed one at once, because a long run takes an hour.
///
/// # Errors
/// When the simulation itself fails.
pub fn explore(
    seed: u64,
    histories: u64,
    most_failed: usize,
    on_failure: impl Fn(u64) + Sync,
) -> anyhow::Result<Summary> {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let summary = Mutex::new((Summary::default(), HashSet::new()));
    let under_way = UnderWay::default();
    let work = |worker: usize| -> anyhow::Result<()> {
        while !stop.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            if number >= histories {
                break;
            }
            let seed = seed_of(seed, number);
            under_way.begin(worker, seed);
            let outcome =
                world::run(&Plan::new(seed), false).inspect_err(|_| stop.store(true, Relaxed))?;
            let mut guard = summary.lock();
            let (summary, traces) = &mut *guard;
            summary.histories += 1;
            summary.messages += outcome.messages;
            traces.insert(outcome.trace);
            if !outcome.violations.is_empty() {
                summary.failed.push(seed);
                on_failure(seed);
                stop.store(summary.failed.len() >= most_failed, Relaxed);
            }
        }
        under_way.end(worker);
        Ok(())
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let (finished, waiting) = channel::<()>();
        scope.spawn(|| under_way.guard(waiting));
        let work = &work;
        let workers: Vec<_> = (0..cores)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        for worker in workers {
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("the simulation panicked"))??;
        }
        drop(finished);
        Ok(())
    })?;
    let (mut summary, traces) = summary.into_inner();
    summary.distinct = traces.len();
    Ok(summary)
}

/// The seed of the history that each worker runs, and when the history began.
#[derive(Default)]
struct UnderWay(Mutex<BTreeMap<usize, (u64, Instant)>>);

impl UnderWay {
    fn begin(&self, worker: usize, seed: u64) {
        let mut all = self.0.lock();
        all.insert(worker, (seed, Instant::now()));
    }

    fn end(&self, worker: usize) {
        let mut all = self.0.lock();
        all.remove(&worker);
    }

    /// Ends the process with the seed of a history in which a task never waits. Virtual time stands
    /// still then, so the history would not end.
    fn guard(&self, finished: Receiver<()>) {
        while finished.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            let all = self.0.lock();
            if let Some((seed, _)) = all.values().find(|(_, since)| since.elapsed() > ENDLESS) {
                println!("0 histories\n  --seed {seed}\n    endless: a task never waits");
                std::process::exit(1);
            }
        }
    }
}
