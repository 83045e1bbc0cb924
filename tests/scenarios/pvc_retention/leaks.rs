//! Sets that are deleted within 100 ms of their creation, before a reconciler can set the owner of
//! their claims. kube-controller-manager's binder provisions the claims' class at once and writes
//! to the new claim: the first attempt of the StatefulSet controller to write an owner then fails
//! with a conflict, and at the second attempt the set is gone.
//!
//! The simulation has such sets, too. This test prints the figures for Volume Warden and for
//! unmodified Kubernetes, see benches/README.md.

use super::{
    late_reviews::{all_were_read, failed_open},
    support::{DELETE_DELETE, DELETE_RETAIN, RETAIN_RETAIN, SetSpace, set},
};
use crate::support::{guarded, in_tree, shared::Shared};
use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use volume_warden_controlplane::{Mark, eventually, eventually_within};

const CONTROLLER: &str = "system:serviceaccount:kube-system:statefulset-controller";
const REPLICAS: i32 = 3;
const AT_ONCE: usize = 3;
const ROUNDS: usize = 6;
/// Sets that are created and deleted.
const LIVES: usize = 1000;
/// Lifetime of a set, in milliseconds.
const LONGEST: u64 = 100;
/// A throttled kube-controller-manager creates and deletes thousands of objects.
const QUIET: Duration = Duration::from_secs(600);

/// STS-32..35 for sets that are deleted at once.
#[tokio::test]
#[ignore = "takes minutes: cargo test --test scenarios leaks -- --ignored --nocapture"]
async fn short_lived_sets_leak_no_claims() -> Result<()> {
    let in_tree = Nursery::new(in_tree().await?, "leaks").await?;
    in_tree.leaked("in-tree", LIVES, LONGEST).await?;
    let mut longest = LONGEST;
    for _ in 0..ROUNDS {
        let cluster = guarded().await?;
        let nursery = Nursery::new(cluster.clone(), "leaks").await?;
        let open = failed_open(&cluster).await?;
        let Some(leaked) = nursery.leaked("volume-warden", LIVES, longest).await? else {
            // A busy controller created too few claims before the sets were deleted.
            longest *= 4;
            continue;
        };
        if leaked.is_empty() {
            return Ok(());
        }
        // On a busy machine the webhook or its live read may time out: then a claim can be left
        // behind. The next round decides.
        let in_time = failed_open(&cluster).await? == open && all_were_read(&nursery.space.space)?;
        let some: Vec<_> = leaked.iter().take(10).collect();
        ensure!(!in_time, "{} are leaked: {some:?}", leaked.len());
    }
    bail!("in each of {ROUNDS} rounds no set lived long enough, or the webhook was too late")
}

/// A namespace where sets are created and deleted.
struct Nursery {
    space: SetSpace,
    configs: Api<ConfigMap>,
    began: Mark,
}

impl Nursery {
    async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let space = SetSpace::new(cluster.clone(), label).await?;
        Ok(Self {
            configs: Api::namespaced(cluster.client(), &space.space.name),
            began: cluster.audit().mark()?,
            space,
        })
    }

    /// The claims leaked by so many sets; `None` if too few claims were created for a valid test.
    async fn leaked(
        &self,
        who: &str,
        lives: usize,
        longest: u64,
    ) -> Result<Option<BTreeSet<String>>> {
        self.live(lives, longest).await?;
        let leaked = self.left().await?;
        let created = self.report(who, lives, &leaked)?;
        Ok((created > 1).then_some(leaked))
    }

    /// Creates so many sets, and deletes each after up to so many milliseconds.
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
        // The set's lifetime is the load, not a wait.
        tokio::time::sleep(delay).await;
        self.space.delete(&name, &DeleteParams::background()).await
    }

    /// The claims that are left in the steady state.
    async fn left(&self) -> Result<BTreeSet<String>> {
        eventually_within(QUIET, "the sets and their pods are gone", async || {
            let all = ListParams::default().limit(1);
            let sets = self.space.sets.list_metadata(&all).await?.items.len();
            let pods = self.space.space.pods.list_metadata(&all).await?.items.len();
            ensure!(sets + pods == 0, "not yet");
            anyhow::Ok(())
        })
        .await?;
        // kube-controller-manager has processed all deletions once it has created the pods of a
        // later set.
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

    /// Waits until the garbage collector deletes an object that loses its owner now: objects that
    /// lost their owner earlier are deleted by then, too.
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
    fn report(&self, who: &str, lives: usize, leaked: &BTreeSet<String>) -> Result<usize> {
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

/// Changes for the class whose claims are provisioned at once.
fn provisioned() -> Value {
    json!({"spec": {"volumeClaimTemplates": [{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}},
    }]}})
}
