//! The stages of the drains: clusters on which nothing in-tree protects or retains, and a drain
//! that is taken in hand.

use crate::support::{
    BINARY, Space, claim, manifests, repository,
    turns::{Place, Turn, first_free},
    volume,
};
use anyhow::{Context, Result, bail, ensure};
use kube::{api::PostParams, core::ObjectMeta};
use serde_json::{Value, json};
use std::{process::Output, time::Duration};
use tokio::{
    process::Command,
    time::{Instant, timeout},
};
use volume_warden_controlplane::{Calls, Cluster, DEFAULT_TIMEOUT, Interposer, Mark, eventually};

pub const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
pub const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
/// A finalizer of another controller.
pub const FOREIGN: &str = "example.com/other";
/// Who drains, by the shipped manifests.
pub const ACCOUNT: &str = "system:serviceaccount:volume-warden:volume-warden-drain";

/// How often a drain that must be repeated is run.
pub const RUNS: usize = 5;
/// A drain loses a Lease that it could not renew for so long, not before.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// A drain is a whole cluster's.
static STAGES: [Place; 3] = [const { Place::new() }; 3];

/// A namespace on a stage, which no other test uses meanwhile.
pub struct Stage {
    pub space: Space,
    /// Between a drain and the API server.
    pub interposer: Interposer,
    begun: Mark,
    _turn: Turn,
}

/// How a drain ended.
#[derive(Debug)]
pub struct Drained {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Drained {
    pub fn of(ended: Output) -> Result<Self> {
        Ok(Self {
            code: ended.status.code(),
            stdout: String::from_utf8(ended.stdout)?,
            stderr: String::from_utf8(ended.stderr)?,
        })
    }

    /// On a machine that is too busy to answer a Lease may be lost, and then it says so and ends.
    pub fn has_lost_a_lease(&self) -> bool {
        let last = self.stderr.lines().last().unwrap_or_default();
        self.code == Some(1) && last.ends_with(" Lease was lost; run volume-warden drain again")
    }

    /// A line that has all of these words.
    pub fn prints(&self, words: &[&str]) -> Result<()> {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        ensure!(self.stdout.lines().any(has_all), "{words:?}: {self:?}");
        Ok(())
    }

    /// It ended with 0, and said at last that nothing is left.
    pub fn left_nothing(&self) -> Result<()> {
        let last = self.stdout.lines().last().unwrap_or_default();
        ensure!(last.ends_with("nothing is left"), "{self:?}");
        ensure!((self.code, &*self.stderr) == (Some(0), ""), "{self:?}");
        Ok(())
    }

    /// It ended with 1, and one line that has these words.
    pub fn failed(&self, words: &str) -> Result<()> {
        ensure!(self.code == Some(1), "{self:?}");
        let one = self.stderr.lines().count() == 1;
        ensure!(one && self.stderr.contains(words), "{words}: {self:?}");
        Ok(())
    }
}

/// Runs a drain, and again where it has lost a Lease. What it wrote before that counts.
pub async fn drained(mut drain: Command) -> Result<Drained> {
    let mut before = String::new();
    for _ in 0..RUNS {
        let began = Instant::now();
        let ended = timeout(DEFAULT_TIMEOUT, drain.output()).await;
        let mut drained = Drained::of(ended.context("it hangs")??)?;
        drained.stdout = before + &drained.stdout;
        if !drained.has_lost_a_lease() {
            return Ok(drained);
        }
        ensure!(began.elapsed() >= RENEW_DEADLINE, "too early: {drained:?}");
        before = drained.stdout;
    }
    bail!("it loses its Lease again and again")
}

impl Stage {
    /// Waits for its turn. What is shipped is installed, whatever the previous test removed.
    pub async fn new(label: &str) -> Result<Self> {
        let start = async |name: &str| Cluster::without_in_tree().name(name).start().await;
        let (cluster, turn) = first_free(&STAGES, "drained", start).await?;
        for kustomization in ["manifests", "manifests/drain/in-tree-off"] {
            let directory = repository().join(kustomization);
            // The namespace may still be on its way out.
            eventually(&format!("{kustomization} is applied"), async || {
                manifests::apply(&cluster, &directory).await
            })
            .await?;
        }
        let interposer =
            Interposer::for_service_account(&cluster, "volume-warden", "volume-warden-drain")
                .await?;
        Ok(Self {
            space: Space::new(cluster.clone(), label).await?,
            interposer,
            begun: cluster.audit().mark()?,
            _turn: turn,
        })
    }

    /// A drain of everything, unless the arguments say otherwise.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command
            .arg("drain")
            .arg("--kubeconfig")
            .arg(self.interposer.kubeconfig())
            .args(arguments)
            // What is logged besides is not what users read.
            .env("RUST_LOG", "off")
            .process_group(self.space.cluster.group())
            .kill_on_drop(true);
        command
    }

    pub async fn drain(&self, arguments: &[&str]) -> Result<Drained> {
        drained(self.command(arguments)).await
    }

    /// What drains asked of the API server so far, by its own record.
    pub fn calls(&self) -> Result<Calls> {
        let audit = self.space.cluster.audit();
        Ok(audit.since(self.begun)?.by_user(ACCOUNT))
    }

    /// What they wrote on claims and volumes, or deleted of webhooks.
    pub fn writes(&self) -> Result<Vec<String>> {
        let writes = self.calls()?.writes();
        let others = writes.iter().filter(|call| call.resource != "leases");
        Ok(others
            .map(|call| format!("{} {}", call.verb, call.resource))
            .collect())
    }

    /// Patches of claims so far, also those that never arrived.
    pub fn claim_writes(&self) -> usize {
        let seen = self.interposer.requests();
        let patch = |path: &str| path.contains("/persistentvolumeclaims/");
        seen.iter()
            .filter(|seen| seen.method == "PATCH" && patch(&seen.path))
            .count()
    }

    /// A claim as a running Volume Warden leaves it, and another controller's finalizer where `foreign`.
    pub async fn create_claim(&self, name: &str, changes: Value) -> Result<ObjectMeta> {
        let mut protected = json!({"metadata": {"finalizers": [CLAIM_FINALIZER]}});
        json_patch::merge(&mut protected, &changes);
        let claims = &self.space.claims;
        let wanted = claim(name, protected)?;
        let created = claims.create(&PostParams::default(), &wanted).await?;
        Ok(created.metadata)
    }

    /// The same of a volume. It is named after the namespace, too.
    pub async fn create_volume(&self, changes: Value) -> Result<String> {
        let name = format!("pv-{}", self.space.name);
        let mut protected = json!({"metadata": {"finalizers": [VOLUME_FINALIZER]}});
        json_patch::merge(&mut protected, &changes);
        let volumes = &self.space.volumes;
        volumes
            .create(&PostParams::default(), &volume(&name, protected)?)
            .await?;
        Ok(name)
    }

    pub async fn volume_finalizers(&self, name: &str) -> Result<Vec<String>> {
        let found = self.space.volumes.get(name).await?.metadata;
        Ok(found.finalizers.unwrap_or_default())
    }

    pub async fn volume_is_gone(&self, name: &str) -> Result<()> {
        eventually(&format!("volume {name} is gone"), async || {
            anyhow::Ok(self.space.volumes.get_opt(name).await?.is_none())
        })
        .await
    }

    /// The names of our webhook configurations, with their kinds.
    pub async fn configurations(&self) -> Result<Vec<String>> {
        let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
        let all = self
            .space
            .cluster
            .kubectl(&["get", kinds, "-o", "name"])
            .await?;
        let installed = all.lines().filter(|name| name.contains("/volume-warden-"));
        Ok(installed.map(str::to_owned).collect())
    }
}
