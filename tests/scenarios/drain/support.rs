//! Clusters for drains, on which Kubernetes' own protection and retention are disabled, and the
//! results of drains.

use crate::support::{
    BINARY, Space, claim, manifests, repository,
    turns::{Place, Turn, acquire_free},
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
/// The service account of drains in the shipped manifests.
pub const ACCOUNT: &str = "system:serviceaccount:volume-warden:volume-warden-drain";

/// Maximum number of runs of a drain that must be repeated.
pub const MAX_RUNS: usize = 5;
/// How long a drain fails to renew its Lease before it loses the Lease.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// A drain handles a whole cluster, so one test at a time uses each of these clusters.
static CLUSTERS: [Place; 3] = [const { Place::new() }; 3];

/// A namespace on a cluster that no other test uses meanwhile.
pub struct DrainFixture {
    pub space: Space,
    /// Between a drain and the API server.
    pub interposer: Interposer,
    start: Mark,
    _turn: Turn,
}

/// The exit code and the output of a drain.
#[derive(Debug)]
pub struct Drained {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Drained {
    pub fn from_output(output: Output) -> Result<Self> {
        Ok(Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        })
    }

    /// Whether the drain exited because it lost a Lease, which may happen on a busy machine.
    pub fn has_lost_a_lease(&self) -> bool {
        let last = self.stderr.lines().last().unwrap_or_default();
        self.code == Some(1) && last.ends_with(" Lease was lost; run volume-warden drain again")
    }

    /// Checks that one line of the output contains all of these words.
    pub fn prints(&self, words: &[&str]) -> Result<()> {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        ensure!(self.stdout.lines().any(has_all), "{words:?}: {self:?}");
        Ok(())
    }

    /// Checks that the drain exited with 0, and that its last line reports that nothing is left.
    pub fn left_nothing(&self) -> Result<()> {
        let last = self.stdout.lines().last().unwrap_or_default();
        ensure!(last.ends_with("nothing is left"), "{self:?}");
        ensure!((self.code, &*self.stderr) == (Some(0), ""), "{self:?}");
        Ok(())
    }

    /// Checks that the drain exited with 1, and that its only error line contains these words.
    pub fn failed(&self, words: &str) -> Result<()> {
        ensure!(self.code == Some(1), "{self:?}");
        let one = self.stderr.lines().count() == 1;
        ensure!(one && self.stderr.contains(words), "{words}: {self:?}");
        Ok(())
    }
}

/// Runs a drain, and repeats it if it lost a Lease. The output is that of all these runs.
pub async fn run_drain(mut drain: Command) -> Result<Drained> {
    let mut before = String::new();
    for _ in 0..MAX_RUNS {
        let began = Instant::now();
        let output = timeout(DEFAULT_TIMEOUT, drain.output()).await;
        let mut drained = Drained::from_output(output.context("the drain does not exit")??)?;
        drained.stdout = before + &drained.stdout;
        if !drained.has_lost_a_lease() {
            return Ok(drained);
        }
        ensure!(
            began.elapsed() >= RENEW_DEADLINE,
            "the Lease was lost too early: {drained:?}"
        );
        before = drained.stdout;
    }
    bail!("the drain lost a Lease in every run")
}

impl DrainFixture {
    /// Waits for a free cluster. Reinstalls the manifests, because the previous test may have
    /// removed a part of them.
    pub async fn new(label: &str) -> Result<Self> {
        let start_cluster = async |name: &str| Cluster::without_in_tree().name(name).start().await;
        let (cluster, turn) = acquire_free(&CLUSTERS, "drained", start_cluster).await?;
        for kustomization in ["manifests", "manifests/drain/in-tree-off"] {
            let directory = repository().join(kustomization);
            // The namespace may still be Terminating.
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
            start: cluster.audit().mark()?,
            _turn: turn,
        })
    }

    /// A command that drains everything, unless the arguments restrict it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command
            .arg("drain")
            .arg("--kubeconfig")
            .arg(self.interposer.kubeconfig())
            .args(arguments)
            // Without log lines, stderr contains only the messages for users.
            .env("RUST_LOG", "off")
            .process_group(self.space.cluster.group())
            .kill_on_drop(true);
        command
    }

    pub async fn drain(&self, arguments: &[&str]) -> Result<Drained> {
        run_drain(self.command(arguments)).await
    }

    /// The requests of drains to the API server so far, from its audit log.
    pub fn calls(&self) -> Result<Calls> {
        let audit = self.space.cluster.audit();
        Ok(audit.since(self.start)?.by_user(ACCOUNT))
    }

    /// The writes of drains so far, except those on Leases, as `patch persistentvolumes`.
    pub fn writes(&self) -> Result<Vec<String>> {
        let writes = self.calls()?.writes();
        let others = writes.iter().filter(|call| call.resource != "leases");
        Ok(others
            .map(|call| format!("{} {}", call.verb, call.resource))
            .collect())
    }

    /// Number of PATCH requests for claims so far, including those that did not reach the API
    /// server.
    pub fn claim_writes(&self) -> usize {
        let seen = self.interposer.requests();
        let is_claim = |path: &str| path.contains("/persistentvolumeclaims/");
        seen.iter()
            .filter(|seen| seen.method == "PATCH" && is_claim(&seen.path))
            .count()
    }

    /// Creates a claim with the finalizer that Volume Warden sets, and with `changes` merged over
    /// it.
    pub async fn create_claim(&self, name: &str, changes: Value) -> Result<ObjectMeta> {
        let mut protected = json!({"metadata": {"finalizers": [CLAIM_FINALIZER]}});
        json_patch::merge(&mut protected, &changes);
        let claims = &self.space.claims;
        let wanted = claim(name, protected)?;
        let created = claims.create(&PostParams::default(), &wanted).await?;
        Ok(created.metadata)
    }

    /// Creates a volume with the finalizer that Volume Warden sets, and with `changes` merged over
    /// it. Its name contains the name of the namespace.
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

    /// The kinds and names of the webhook configurations of Volume Warden.
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
