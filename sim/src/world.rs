//! Runs one history: the API server, the controllers of a cluster, and replicas of Volume Warden.

use crate::{
    actors,
    admission::Reviews,
    checks::{self, Checks, Violation},
    cluster::{Activity, Cluster, wall_clock},
    manifests,
    plan::{Disruption, Plan},
    replica::{Replica, Start},
    schedule::Schedule,
    trace::Trace,
    view::Log,
};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use volume_warden::hashing;
use volume_warden_apiserver_model::{ApiServer, Settings, User, Version};

/// How a history ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The invariants that did not hold.
    pub violations: Vec<Violation>,
    /// Identifies what happened.
    pub trace: u64,
    /// Number of requests and reviews.
    pub messages: u64,
    /// The story, if it was asked for.
    pub story: Vec<String>,
}

/// Time from the end of all faults within which everything promised is reached: a silent watch is
/// noticed after 205 s, and then there are retries.
const BOUND: u64 = 300_000;
/// Nothing happens for this time in a cluster that is at rest. It is longer than the pauses between
/// two attempts.
const STILL: u64 = 6_000;
/// How long a long history is followed after that.
const QUIET: Duration = Duration::from_secs(20 * 60);
/// Time until a crashed replica is started again.
const RESTART: Duration = Duration::from_millis(900);

/// Runs the history of a plan.
///
/// # Errors
/// When the simulation itself is wrong, for example a flag.
pub fn run(plan: &Plan, story: bool) -> anyhow::Result<Outcome> {
    // One key for all histories, so that a seed gives the same history in each process.
    hashing::set_key(0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(history(plan, story))
}

async fn history(plan: &Plan, story: bool) -> anyhow::Result<Outcome> {
    let (schedule, reviews, log) = (
        Schedule::new(),
        Arc::new(Reviews::default()),
        Arc::new(Log::default()),
    );
    tokio::spawn(schedule.clone().run());
    let (trace, checks) = (Arc::new(Trace::new(story)), Arc::new(Checks::new(plan)));
    let cluster = Arc::new(Cluster {
        seed: plan.seed,
        server: server(plan.seed, &schedule),
        schedule,
        faults: plan.faults.clone(),
        trace,
        checks,
        activity: Activity::default(),
    });
    furnish(&cluster.server).await?;
    reviews.connect(&cluster);
    cluster.server.set_admission(reviews.clone());
    observe(&cluster, &log);
    actors::start(&cluster, &log);
    let mut replicas = Vec::new();
    for index in 0..plan.replicas {
        replicas.push(Slot::start(&cluster, &reviews, plan, index).await?);
    }
    let user = tokio::spawn(act(cluster.clone(), plan.steps.clone()));
    for at in disrupted(plan) {
        disrupt(&cluster, &reviews, plan, &mut replicas, at).await?;
    }
    user.await.context("the user panicked")?;
    rest(&cluster, &reviews, plan, &mut replicas).await?;
    conclude(&cluster, plan, &mut replicas).await;
    Ok(Outcome {
        violations: cluster.checks.violations(),
        trace: cluster.trace.hash(),
        messages: cluster.trace.entries(),
        story: cluster.trace.story(),
    })
}

fn server(seed: u64, schedule: &Arc<Schedule>) -> ApiServer {
    let clock = wall_clock(schedule, 0);
    ApiServer::new(Settings {
        version: Version::V1_34,
        seed,
        clock: Arc::new(move || clock.now()),
        in_tree_protection: false,
    })
}

/// Creates what a cluster with Volume Warden has.
async fn furnish(server: &ApiServer) -> anyhow::Result<()> {
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    for name in ["ns", "other", "volume-warden", "kube-system"] {
        create(server, "/api/v1/namespaces", &namespace(name)).await?;
    }
    for name in ["delete", "retain"] {
        let policy = if name == "retain" { "Retain" } else { "Delete" };
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": "sim", "reclaimPolicy": policy, "volumeBindingMode": "Immediate",
        });
        create(server, "/apis/storage.k8s.io/v1/storageclasses", &class).await?;
    }
    for configuration in manifests::webhook_configurations()? {
        let kind = configuration["kind"]
            .as_str()
            .unwrap_or_default()
            .to_lowercase();
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}s");
        create(server, &path, configuration).await?;
    }
    Ok(())
}

async fn create(server: &ApiServer, path: &str, object: &Value) -> anyhow::Result<()> {
    let administrator = User {
        name: "admin".into(),
        groups: vec!["system:masters".into()],
    };
    let request = http::Request::post(path).header("content-type", "application/json");
    let response = server
        .handle(&administrator, request.body(object.to_string().into())?)
        .await;
    anyhow::ensure!(
        response.status().is_success(),
        "{} for {object}",
        response.status()
    );
    Ok(())
}

fn observe(cluster: &Arc<Cluster>, log: &Arc<Log>) {
    let (schedule, checks, log) = (
        cluster.schedule.clone(),
        cluster.checks.clone(),
        log.clone(),
    );
    cluster.server.observe(Box::new(move |change| {
        let now = schedule.now();
        log.add(now, change);
        checks.changed(now, change);
    }));
}

/// A replica, or the time until it is started again.
struct Slot {
    index: usize,
    incarnation: u32,
    replica: Replica,
}

impl Slot {
    async fn start(
        cluster: &Arc<Cluster>,
        reviews: &Reviews,
        plan: &Plan,
        index: usize,
    ) -> anyhow::Result<Self> {
        let replica = launch(cluster, reviews, plan, index, 0).await?;
        let crashes = plan
            .disruptions
            .iter()
            .filter_map(|(_, disruption)| match disruption {
                Disruption::CrashAt {
                    replica,
                    request,
                    after_effect,
                } if *replica == index => Some((*request, *after_effect)),
                _ => None,
            });
        for (request, after_effect) in crashes {
            replica.connection().crash_at(request, after_effect);
        }
        Ok(Self {
            index,
            incarnation: 0,
            replica,
        })
    }

    /// Starts the replica again if it has crashed, or always.
    async fn restart(
        &mut self,
        cluster: &Arc<Cluster>,
        reviews: &Reviews,
        plan: &Plan,
        in_order: bool,
    ) -> anyhow::Result<()> {
        let crashed = self.replica.connection().is_cut();
        if !crashed && !in_order {
            return Ok(());
        }
        self.incarnation += 1;
        let next = launch(cluster, reviews, plan, self.index, self.incarnation).await?;
        let last = std::mem::replace(&mut self.replica, next);
        match crashed {
            true => last.kill(),
            false => last.terminate().await,
        }
        let now = cluster.schedule.now();
        cluster
            .trace
            .record(now, ("start", self.replica.name()), || {
                format!("{} STARTS", self.replica.name())
            });
        Ok(())
    }
}

async fn launch(
    cluster: &Arc<Cluster>,
    reviews: &Reviews,
    plan: &Plan,
    index: usize,
    incarnation: u32,
) -> anyhow::Result<Replica> {
    let name = format!("replica-{index}.{incarnation}");
    let offset = plan.clock_skew * i64::try_from(index).unwrap_or_default();
    let start: &Start = &plan.start;
    Replica::start(cluster, reviews, name, start, offset).await
}

/// The disruptions in the order of their times.
fn disrupted(plan: &Plan) -> Vec<(u64, Disruption)> {
    let mut all = plan.disruptions.clone();
    all.sort_by_key(|(at, _)| *at);
    all
}

async fn disrupt(
    cluster: &Arc<Cluster>,
    reviews: &Reviews,
    plan: &Plan,
    replicas: &mut [Slot],
    (at, disruption): (u64, Disruption),
) -> anyhow::Result<()> {
    wait_until(cluster, reviews, plan, replicas, at).await?;
    let now = cluster.schedule.now();
    cluster.trace.record(now, format!("{disruption:?}"), || {
        format!("{disruption:?}").to_uppercase()
    });
    match disruption {
        // Arranged when the replica was started.
        Disruption::CrashAt { .. } => {}
        Disruption::Hold {
            replica,
            milliseconds,
        } => {
            if let Some(slot) = replicas.get(replica) {
                slot.replica.connection().hold(now + milliseconds);
            }
        }
        Disruption::Pause {
            replica,
            milliseconds,
        } => {
            if let Some(slot) = replicas.get(replica) {
                slot.replica.connection().pause(now + milliseconds);
            }
        }
        Disruption::Restart { replica } => {
            if let Some(slot) = replicas.get_mut(replica) {
                slot.restart(cluster, reviews, plan, true).await?;
            }
        }
        Disruption::EndWatches => cluster.server.end_watches(),
        Disruption::Compact => {
            cluster.server.compact();
            cluster.server.end_watches();
        }
    }
    Ok(())
}

/// Waits until this virtual millisecond, and starts crashed replicas again.
async fn wait_until(
    cluster: &Arc<Cluster>,
    reviews: &Reviews,
    plan: &Plan,
    replicas: &mut [Slot],
    at: u64,
) -> anyhow::Result<()> {
    while cluster.schedule.now() < at {
        let left = Duration::from_millis(at - cluster.schedule.now());
        tokio::time::sleep(left.min(RESTART)).await;
        for slot in &mut *replicas {
            slot.restart(cluster, reviews, plan, false).await?;
        }
    }
    Ok(())
}

/// Carries out the steps of the user, each without waiting for the one before.
async fn act(cluster: Arc<Cluster>, steps: Vec<(u64, crate::steps::Step)>) {
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

/// Waits until everything promised is reached and nothing is under way, but not longer than the
/// bound.
async fn rest(
    cluster: &Arc<Cluster>,
    reviews: &Reviews,
    plan: &Plan,
    replicas: &mut [Slot],
) -> anyhow::Result<()> {
    let (begin, bound) = (plan.faults.end + STILL, plan.faults.end + BOUND);
    let mut now = begin;
    loop {
        wait_until(cluster, reviews, plan, replicas, now).await?;
        let still = cluster.activity.is_at_rest_since(now.saturating_sub(STILL));
        if now >= bound || (still && !plan.long && checks::at_rest(cluster).is_empty()) {
            return Ok(());
        }
        now += 1_000;
    }
}

async fn conclude(cluster: &Arc<Cluster>, plan: &Plan, replicas: &mut [Slot]) {
    let now = cluster.schedule.now();
    for violation in checks::at_rest(cluster) {
        cluster
            .checks
            .add(violation.invariant, now, violation.message);
    }
    for slot in &mut *replicas {
        if slot.replica.has_panicked() {
            cluster.checks.add(
                "panic",
                now,
                format!("a task of {} panicked", slot.replica.name()),
            );
        }
    }
    if !plan.long {
        return;
    }
    tokio::time::sleep(QUIET).await;
    let last = cluster.checks.with_ledger(|ledger| ledger.last_write);
    if last > now {
        cluster.checks.add(
            "liveness",
            last,
            "something was written in a cluster at rest".into(),
        );
    }
}
