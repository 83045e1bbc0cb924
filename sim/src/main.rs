//! `volume-warden-sim`: runs many histories, or replays one.

use clap::Parser;
use std::{process::ExitCode, time::Instant};
use volume_warden_sim::{
    explore::{Summary, explore},
    plan::Plan,
    shrink::shrink,
    trace::timed,
    world::{self, Outcome},
};

/// A faster allocator, because a history allocates many small values.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs Volume Warden against a model of a cluster, in many different histories.
#[derive(Parser)]
struct Options {
    /// Number of histories.
    #[arg(long, default_value_t = 20_000)]
    histories: u64,

    /// The seed from which the seeds of the histories follow [default: a new one]
    #[arg(long)]
    run: Option<u64>,

    /// Replay the history with this seed, and print its transcript.
    #[arg(long)]
    seed: Option<u64>,

    /// With --seed: first leave out what the failure does not need.
    #[arg(long)]
    shrink: bool,

    /// Stop after this number of failed histories.
    #[arg(long, default_value_t = 5)]
    failures: usize,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    match options.seed {
        Some(seed) => replay(seed, options.shrink),
        None => many(&options),
    }
}

fn many(options: &Options) -> anyhow::Result<ExitCode> {
    let run = options.run.unwrap_or_else(|| fastrand::u64(..));
    println!("run {run}: {} histories", options.histories);
    let began = Instant::now();
    let on_failure = |seed| eprintln!("--seed {seed} failed");
    let summary = explore(run, options.histories, options.failures, on_failure)?;
    let seconds = began.elapsed().as_secs_f64();
    let Summary {
        histories,
        distinct,
        messages,
        failed,
    } = &summary;
    println!(
        "{histories} histories, {distinct} distinct, {messages} messages, {:.0} histories a second, {} failed",
        *histories as f64 / seconds,
        failed.len(),
    );
    for seed in failed {
        let outcome = world::run(&Plan::new(*seed), false)?;
        println!("  --seed {seed}");
        report(&outcome);
    }
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn replay(seed: u64, smaller: bool) -> anyhow::Result<ExitCode> {
    let mut plan = Plan::new(seed);
    if smaller {
        plan = shrink(&plan)?;
    }
    let outcome = world::run(&plan, true)?;
    for line in &outcome.transcript {
        println!("{line}");
    }
    println!("{plan:#?}");
    println!(
        "trace {:016x}, {} messages",
        outcome.trace, outcome.messages
    );
    report(&outcome);
    Ok(if outcome.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn report(outcome: &Outcome) {
    for violation in &outcome.violations {
        println!(
            "    {} {}",
            violation.invariant,
            timed(violation.at, &violation.message)
        );
    }
}
