//! Sets that are deleted within 100 ms of their creation, which is before their claims can have got an owner from a reconciler. Their
//! claims are of a class that kube-controller-manager's binder provisions at once: it then writes to the fresh claim, and Kubernetes'
//! own StatefulSet controller, whose first try to write an owner fails for that, finds the set gone at the second.
//!
//! `VOLUME_WARDEN_SOAK=1` makes more of them, beside Kubernetes as it ships.

use super::support::{DELETE_DELETE, DELETE_RETAIN, RETAIN_RETAIN, SetSpace, set, unread};
use crate::support::{Space, guarded, in_tree};
use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use volume_warden_controlplane::{Cluster, Mark, eventually, eventually_within};

const CONTROLLER: &str = "system:serviceaccount:kube-system:statefulset-controller";
const REPLICAS: i32 = 3;
const AT_ONCE: usize = 3;
const ROUNDS: usize = 6;
/// A set's life, in milliseconds.
const LONGEST: u64 = 100;
/// Thousands of objects are created and deleted by a throttled kube-controller-manager.
const QUIET: Duration = Duration::from_secs(600);

/// STS-32..35 where the set is gone at once.
#[tokio::test]
async fn no_set_leaks_a_claim_however_short_its_life() -> Result<()> {
    let soak = std::env::var_os("VOLUME_WARDEN_SOAK").is_some();
    let lives = if soak { 1000 } else { 40 };
    if soak {
        let in_tree = Nursery::new(in_tree().await?, "leaks").await?;
        in_tree.leaked("in-tree", lives, LONGEST).await?;
    }
    let mut longest = LONGEST;
    for _ in 0..ROUNDS {
        let cluster = guarded().await?;
        let ours = Nursery::new(cluster, "leaks").await?;
        let open = failed_open(cluster).await?;
        let Some(leaked) = ours.leaked("ours", lives, longest).await? else {
            // A busy controller was too slow for all of them.
            longest *= 4;
            continue;
        };
        if leaked.is_empty() {
            return Ok(());
        }
        // On a busy machine the webhook may be too late once, or what it asks: then nobody could see to a claim. Another round tells.
        let in_time = failed_open(cluster).await? == open && all_were_read(&ours.space.space)?;
        let some: Vec<_> = leaked.iter().take(10).collect();
        ensure!(!in_time, "{} are leaked: {some:?}", leaked.len());
    }
    bail!("in each of {ROUNDS} rounds no set lived long enough, or the webhook was too late")
}

/// Where sets come and go.
struct Nursery {
    space: SetSpace,
    configs: Api<ConfigMap>,
    began: Mark,
}

impl Nursery {
    async fn new(cluster: &'static Cluster, label: &str) -> Result<Self> {
        let space = SetSpace::new(cluster, label).await?;
        Ok(Self {
            configs: Api::namespaced(cluster.client(), &space.space.name),
            began: cluster.audit().mark()?,
            space,
        })
    }

    /// What is leaked of so many sets; nothing if hardly a claim was created, because then nothing was tried.
    async fn leaked(
        &self,
        who: &str,
        lives: usize,
        longest: u64,
    ) -> Result<Option<BTreeSet<String>>> {
        self.live(lives, longest).await?;
        let leaked = self.left().await?;
        let created = self.tell(who, lives, &leaked)?;
        Ok((created > 1).then_some(leaked))
    }

    /// So many sets are created, and deleted after up to so many milliseconds.
    async fn live(&self, lives: usize, longest: u64) -> Result<()> {
        let mut random = fastrand::Rng::with_seed(1);
        let delays = std::iter::repeat_with(|| Duration::from_millis(random.u64(0..=longest)));
        stream::iter(delays.take(lives).enumerate())
            .map(|(index, delay)| self.live_once(index, delay))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn live_once(&self, index: usize, delay: Duration) -> Result<()> {
        let name = format!("short{index}");
        let policy = [DELETE_RETAIN, DELETE_DELETE][index % 2];
        let wanted = set(&name, REPLICAS, policy, provisioned())?;
        let sets = &self.space.sets;
        sets.create(&PostParams::default(), &wanted).await?;
        // Nothing is waited for here: how long the set lives is the load.
        tokio::time::sleep(delay).await;
        self.space.delete(&name, &DeleteParams::background()).await
    }

    /// The claims that are left once nothing happens any more.
    async fn left(&self) -> Result<BTreeSet<String>> {
        eventually_within(QUIET, "the sets and their pods are gone", async || {
            let all = ListParams::default().limit(1);
            let sets = self.space.sets.list_metadata(&all).await?.items.len();
            let pods = self.space.space.pods.list_metadata(&all).await?.items.len();
            ensure!(sets + pods == 0, "not yet");
            anyhow::Ok(())
        })
        .await?;
        // kube-controller-manager has heard of all deletions once it has made the pods of a set that came afterwards.
        self.space.create("after", 1, RETAIN_RETAIN).await?;
        let gone = eventually("no claim is left", async || {
            anyhow::Ok(self.claims().await?.is_empty())
        });
        if gone.await.is_err() {
            self.garbage_is_collected().await?;
        }
        self.claims().await
    }

    async fn claims(&self) -> Result<BTreeSet<String>> {
        let claims = &self.space.space.claims;
        let claims = claims.list_metadata(&ListParams::default()).await?;
        let short = |name: &String| name.starts_with("data-short");
        Ok(claims
            .iter()
            .map(ResourceExt::name_any)
            .filter(short)
            .collect())
    }

    /// What loses its owner now is deleted in the end, and so is what has lost it before.
    async fn garbage_is_collected(&self) -> Result<()> {
        let owner = self
            .create_config(json!({"generateName": "owner-"}))
            .await?;
        let uid = owner.uid().context("a uid")?;
        let reference =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": uid});
        let owned = json!({"generateName": "owned-", "ownerReferences": [reference]});
        let owned = self.create_config(owned).await?.name_any();
        let background = DeleteParams::background();
        self.configs.delete(&owner.name_any(), &background).await?;
        eventually("the garbage collector works", async || {
            anyhow::Ok(self.configs.get_opt(&owned).await?.is_none())
        })
        .await
    }

    async fn create_config(&self, metadata: Value) -> Result<ConfigMap> {
        let config = serde_json::from_value(json!({"metadata": metadata}))?;
        Ok(self.configs.create(&PostParams::default(), &config).await?)
    }

    /// Prints the figures, and returns how many claims were created.
    fn tell(&self, who: &str, lives: usize, leaked: &BTreeSet<String>) -> Result<usize> {
        let space = &self.space.space;
        let calls = space.cluster.audit().since(self.began)?.by_user(CONTROLLER);
        let of_claims = calls.iter().filter(|call| {
            call.namespace == space.name && call.resource == "persistentvolumeclaims"
        });
        let count = |verb, code| {
            let calls = of_claims.clone();
            calls
                .filter(|call| call.verb == verb && call.code == code)
                .count()
        };
        let (created, refused) = (count("create", 201), count("create", 403));
        println!(
            "{who}: {lives} sets of {REPLICAS} replicas, {created} claims created, {refused} refused, {} owner writes in conflict, {} leaked",
            count("update", 409),
            leaked.len(),
        );
        Ok(created)
    }
}

/// How often the API server has not waited for the webhook.
pub async fn failed_open(cluster: &Cluster) -> Result<String> {
    let request = http::Request::get("/metrics").body(vec![])?;
    let metrics = cluster.client().request_text(request).await?;
    let ours = |line: &&str| {
        line.starts_with("apiserver_admission_webhook_fail_open_count")
            && line.contains("pvc-retention")
    };
    Ok(metrics.lines().filter(ours).collect())
}

/// Whether whose each new claim of the namespace is was known in time to the Volume Warden that serves the cluster's webhooks.
pub fn all_were_read(space: &Space) -> Result<bool> {
    // Its log has the name that is not said otherwise.
    let log = std::fs::read(space.cluster.dir().join("warden.log"))?;
    Ok(unread(&String::from_utf8_lossy(&log), &space.name) == 0)
}

/// Of the class whose claims are provisioned at once.
fn provisioned() -> Value {
    json!({"spec": {"volumeClaimTemplates": [{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}},
    }]}})
}
