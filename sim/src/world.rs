//! Runs one history: the API server, the controllers of a cluster, and replicas of Volume Warden.

mod furnish;
mod replicas;

use crate::{
    actors,
    admission::Reviews,
    checks::{self, Checks, Violation},
    cluster::{Activity, Cluster},
    panics,
    plan::Plan,
    policies,
    schedule::Schedule,
    steps::Step,
    trace::Trace,
    view::Log,
};
use anyhow::{Context as _, ensure};
use furnish::{observe, server};
use replicas::Replicas;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use volume_warden::hashing;

/// How a history ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The invariants that did not hold.
    pub violations: Vec<Violation>,
    /// The hash of what happened.
    pub trace: u64,
    /// Number of requests and reviews.
    pub messages: u64,
    /// The lines of the transcript; empty if it was not requested.
    pub transcript: Vec<String>,
}

/// Maximum time, in milliseconds, from the end of all faults until the liveness promises are kept:
/// a silent watch is detected after 205 s, and retries follow.
const BOUND: u64 = 300_000;
/// A cluster is at rest if nothing happens for this time, in milliseconds. It is longer than the
/// pause between two attempts.
const STILL: u64 = 6_000;
/// Maximum time, in milliseconds, from the bound to a moment without a request in progress.
const PAUSE: u64 = 60_000;
/// How long a long history continues after that.
const QUIET: Duration = Duration::from_secs(20 * 60);
/// Maximum number of Events in that time: lost Events are repeated, and some report a lasting
/// state.
const MAX_EVENTS: usize = 10;

/// Runs the history of a plan.
///
/// # Errors
/// When the simulation itself fails, for example because a flag is invalid.
pub fn run(plan: &Plan, transcript: bool) -> anyhow::Result<Outcome> {
    // One key for all histories, so that a seed gives the same history in each process.
    hashing::set_key(0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    panics::take();
    let (mut outcome, cluster) = runtime.block_on(history(plan, transcript))?;
    let panics = panics::take().into_iter();
    outcome.violations.extend(panics.map(|message| Violation {
        invariant: "panic",
        at: 0,
        message,
    }));
    drop(runtime);
    // Without this, a million histories would not fit into memory.
    ensure!(
        cluster.strong_count() == 0,
        "the history of the seed {} is not freed",
        plan.seed
    );
    Ok(outcome)
}

async fn history(plan: &Plan, transcript: bool) -> anyhow::Result<(Outcome, Weak<Cluster>)> {
    let (schedule, reviews, log) = (
        Schedule::new(),
        Arc::new(Reviews::default()),
        Arc::new(Log::default()),
    );
    tokio::spawn(schedule.clone().run());
    let (trace, checks) = (
        Arc::new(Trace::new(transcript)),
        Arc::new(Checks::new(plan)),
    );
    let cluster = Arc::new(Cluster {
        seed: plan.seed,
        server: server(plan, &schedule).await?,
        schedule,
        faults: plan.faults.clone(),
        trace,
        checks,
        activity: Activity::default(),
    });
    reviews.connect(&cluster);
    cluster.server.set_admission(reviews.clone());
    cluster.server.set_policy(policies::shipped());
    observe(&cluster, &log);
    actors::start(&cluster, &log);
    let mut replicas = Replicas::start(&cluster, &reviews, plan).await?;
    let user = tokio::spawn(act(cluster.clone(), plan.steps.clone()));
    replicas.disrupt().await?;
    user.await.context("the user panicked")?;
    rest(&cluster, plan, &mut replicas).await?;
    conclude(&cluster, plan, &mut replicas).await;
    cluster.checks.finish(cluster.schedule.now());
    let outcome = Outcome {
        violations: cluster.checks.violations(),
        trace: cluster.trace.hash(),
        messages: cluster.trace.entries(),
        transcript: cluster.trace.transcript(),
    };
    Ok((outcome, Arc::downgrade(&cluster)))
}

/// Carries out the steps of the user, each without waiting for the one before.
async fn act(cluster: Arc<Cluster>, steps: Vec<(u64, Step)>) {
    let wire = actors::wire(&cluster, "user", "alice");
    for (number, (at, step)) in steps.into_iter().enumerate() {
        let delay = at.saturating_sub(cluster.schedule.now());
        cluster.schedule.turn(delay, number as u64).await;
        cluster
            .trace
            .record(cluster.schedule.now(), step.to_string(), || {
                format!("user: {step}")
            });
        for call in step.calls(&cluster) {
            let wire = wire.clone();
            tokio::spawn(async move { actors::send(&wire, call).await });
        }
    }
}

/// Waits until the liveness promises are kept and no request is in progress, but not longer than
/// the bound. A leader with a slow clock purges and expires later, so the bound is later then.
async fn rest(cluster: &Cluster, plan: &Plan, replicas: &mut Replicas<'_>) -> anyhow::Result<()> {
    let slow = plan.purge_delay().max(plan.expiry_delay());
    let bound = plan.faults.end + BOUND + slow;
    let mut now = plan.faults.end + STILL + plan.beyond_the_limit();
    loop {
        replicas.wait_until(now).await?;
        let still = cluster.activity.is_at_rest_since(now.saturating_sub(STILL));
        let done = || replicas.unready().is_empty() && checks::at_rest(cluster).is_empty();
        if still && (now >= bound || (!plan.long && done())) {
            return Ok(());
        }
        // A periodic request may be in progress at the bound.
        if now >= bound + PAUSE {
            let message = "requests are sent without a pause".into();
            cluster.checks.add("liveness", now, message);
            return Ok(());
        }
        now += 1_000;
    }
}

/// Checks what has to hold at the end, and in a long history that nothing is written any more.
async fn conclude(cluster: &Cluster, plan: &Plan, replicas: &mut Replicas<'_>) {
    let now = cluster.schedule.now();
    for violation in checks::at_rest(cluster) {
        cluster
            .checks
            .add(violation.invariant, now, violation.message);
    }
    for message in replicas.unready() {
        cluster.checks.add("liveness", now, message);
    }
    // A claim beyond the hourly limit expires when the hour is over.
    if !plan.long || plan.max_expiries().is_some() {
        return;
    }
    // The window of a volume whose restore failed ends an hour later, possibly during this time.
    if checks::was_returned(cluster) {
        return;
    }
    tokio::time::sleep(QUIET).await;
    let (last, events) = cluster
        .checks
        .with_ledger(|ledger| (ledger.last_sent, ledger.events_after(now)));
    if events > MAX_EVENTS {
        let message = format!("{events} Events were sent in a cluster at rest");
        cluster.checks.add("liveness", now, message);
    }
    if last > now {
        cluster.checks.add(
            "liveness",
            last,
            "a write was sent in a cluster at rest".into(),
        );
    }
}
