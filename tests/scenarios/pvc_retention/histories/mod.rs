//! Random histories: sets are created, scaled, given other policies and deleted, their pods are
//! deleted, Volume Warden is killed and the API server paused. At no moment is a claim missing
//! that the policy keeps, and in a steady state none is left that the policy deletes.
//!
//! A history is generated from its number alone. `VOLUME_WARDEN_SOAK=1` plays more of them.
//!
//! No Volume Warden answers the webhooks here. Webhooks apply to the whole cluster, while a
//! history kills its own Volume Warden: that of another history would answer for the one killed,
//! and one that always runs would hide the effect of a kill. So claims are created without owner
//! and mark, only the reconciler writes these, and only the claims of a set that was deleted after
//! a steady state must be deleted with it. [`super::leaks`] covers sets that are deleted at once.
//!
//! Two outcomes are allowed for changes that Volume Warden cannot observe in time: a policy that
//! was set to Retain and back during a scale-down, and a set deleted right after its `whenDeleted`
//! was set to Retain.

mod model;
mod rest;
mod steps;

use super::support::{SetSpace, set};
use crate::support::{BINARY, installed};
use anyhow::{Context, Result, ensure};
use futures::{StreamExt, stream};
use kube::api::{DeleteParams, PostParams};
use model::Model;
use serde_json::{Value, json};
use std::time::Duration;
use steps::{How, Spec, Step, steps};
use tokio::{
    sync::{Mutex, OnceCell},
    time::timeout,
};
use volume_warden_controlplane::{Cluster, Component, Warden, eventually};

const AT_ONCE: usize = 5;

/// Rows STS-32..41, 55 and 115..118 in any order and interleaving.
#[tokio::test]
async fn no_history_loses_a_kept_claim_or_leaves_a_condemned_one() -> Result<()> {
    let soak = std::env::var_os("VOLUME_WARDEN_SOAK").is_some();
    let histories = if soak { 1..=200 } else { 1..=10 };
    let cluster = cluster().await?;
    let played = stream::iter(histories).map(|number| async move {
        let played = play(cluster, number).await;
        played.map_err(|error| format!("history {number}: {error:#}"))
    });
    let played = played.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    let failed: Vec<_> = played.into_iter().filter_map(Result::err).collect();
    ensure!(failed.is_empty(), "{}", failed.join("\n\n"));
    Ok(())
}

/// A separate cluster: other tests would fail while the API server is paused.
async fn cluster() -> Result<&'static Cluster> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER
        .get_or_try_init(|| async { installed("histories", "manifests").await })
        .await
}

async fn play(cluster: &'static Cluster, number: u64) -> Result<()> {
    let steps = steps(number);
    let mut history = History {
        space: SetSpace::new(cluster, "history").await?,
        warden: None,
        model: Model::default(),
    };
    history.start().await?;
    for (index, step) in steps.iter().enumerate() {
        let place = || {
            let steps = steps.iter().enumerate();
            let steps = steps.map(|(index, step)| format!("\n  {index}: {step:?}"));
            let steps: String = steps.collect();
            let namespace = &history.space.space.name;
            format!("step {index} in namespace {namespace} of{steps}\n")
        };
        let place = place();
        history.take(*step).await.context(place)?;
    }
    Ok(())
}

struct History {
    space: SetSpace,
    warden: Option<Warden>,
    model: Model,
}

impl History {
    async fn take(&mut self, step: Step) -> Result<()> {
        self.look().await?;
        match step {
            Step::Create {
                set,
                spec,
                management,
            } => self.create(set, spec, management).await?,
            Step::Change { set, spec } => self.change(set, spec).await?,
            Step::DeletePod { set, ordinal } => self.delete_pod(set, ordinal).await?,
            Step::DeleteSet { set, how } => self.delete_set(set, how).await?,
            Step::Kill => self.kill()?,
            Step::Start => self.start().await?,
            Step::Pause { seconds } => pause(self.space.space.cluster, seconds).await?,
            Step::Settle => self.settle().await?,
        }
        self.look().await
    }

    async fn look(&mut self) -> Result<()> {
        self.model.sees(&rest::there(&self.space).await?)
    }

    async fn create(&mut self, name: &'static str, spec: Spec, management: &str) -> Result<()> {
        self.model.will_be(name, spec);
        let mut changes = deciding(spec);
        changes["spec"]["podManagementPolicy"] = json!(management);
        let wanted = set(name, spec.replicas, spec.policy, changes)?;
        // The previous set of that name may still be terminating.
        let now = PostParams::default();
        eventually(&format!("set {name} is created"), async || {
            self.space.sets.create(&now, &wanted).await.map(drop)
        })
        .await
    }

    async fn change(&mut self, name: &'static str, spec: Spec) -> Result<()> {
        self.model.will_be(name, spec);
        self.space.patch(name, deciding(spec)).await
    }

    async fn delete_pod(&self, set: &str, ordinal: i32) -> Result<()> {
        let pod = format!("{set}-{ordinal}");
        let now = DeleteParams::default().grace_period(0);
        match self.space.space.pods.delete(&pod, &now).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
    }

    async fn delete_set(&mut self, set: &'static str, how: How) -> Result<()> {
        self.model.will_be_deleted(set, how);
        let parameters = match how {
            How::Background => DeleteParams::background(),
            How::Foreground => DeleteParams::foreground(),
            How::Orphan => DeleteParams::orphan(),
        };
        self.space.delete(set, &parameters).await
    }

    fn kill(&mut self) -> Result<()> {
        match self.warden.take() {
            Some(warden) => warden.process().kill().map(drop),
            None => Ok(()),
        }
    }

    /// Always uses the same identity, so that no start waits for a Lease to expire.
    async fn start(&mut self) -> Result<()> {
        if self.warden.is_some() {
            return Ok(());
        }
        let space = &self.space.space;
        let builder = Warden::builder(space.cluster, BINARY)
            .name(format!("warden-{}", space.name))
            .arg(format!("--namespace={}", space.name))
            .arg(format!("--leader-elect-resource-name={}", space.name))
            .arg("--leader-elect-identity=history")
            .arg("--components=pvc-retention");
        self.warden = Some(builder.start().await?);
        Ok(())
    }

    async fn settle(&mut self) -> Result<()> {
        self.start().await?;
        self.rest().await?;
        // Volume Warden and the garbage collector have finished all earlier work.
        self.space.settled().await?;
        let there = self.rest().await?;
        self.model.rests(&there)
    }

    async fn rest(&self) -> Result<Vec<model::Found>> {
        let specs = &self.model.specs;
        eventually("the steady state is reached", async || {
            rest::at_rest(&self.space, specs).await.map(Some)
        })
        .await
    }
}

fn deciding(spec: Spec) -> Value {
    let (when_deleted, when_scaled) = spec.policy;
    json!({"spec": {
        "replicas": spec.replicas,
        "ordinals": {"start": spec.start},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": when_scaled},
    }})
}

/// Pauses the API server for so many requests of a second each, for all histories.
async fn pause(cluster: &Cluster, seconds: u8) -> Result<()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    let _alone = ALONE.lock().await;
    let silence = Silence::begin(cluster)?;
    for _ in 0..seconds {
        // The API server may answer until the signal reaches it.
        eventually("the API server is silent", async || {
            let client = cluster.client();
            let answer = timeout(Duration::from_secs(1), client.apiserver_version()).await;
            answer.is_err()
        })
        .await?;
    }
    silence.end()
}

/// A paused API server, which resumes even if the history fails.
struct Silence<'a>(&'a Cluster);

impl<'a> Silence<'a> {
    fn begin(cluster: &'a Cluster) -> Result<Self> {
        cluster.pause(Component::Apiserver)?;
        Ok(Self(cluster))
    }

    fn end(self) -> Result<()> {
        self.0.resume(Component::Apiserver)
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        // A second resume changes nothing.
        let _ = self.0.resume(Component::Apiserver);
    }
}
