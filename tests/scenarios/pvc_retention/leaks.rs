//! Sets that are deleted within 100 ms of their creation, before a reconciler can set the owner of
//! their claims. The claims are provisioned at once, so kube-controller-manager's volume binder
//! writes them immediately after their creation. The first attempt of the StatefulSet controller to
//! write an owner then fails with a conflict, and before the second attempt the set is deleted.
//!
//! The simulation also has such sets. This test prints the figures for Volume Warden and for
//! unmodified Kubernetes. They are recorded in benches/README.md.

use super::{
    late_reviews::{all_sets_were_read, failed_open},
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
/// Replicas of each set.
const REPLICAS: i32 = 3;
const CONCURRENT_SETS: usize = 3;
const ROUNDS: usize = 6;
/// Number of sets that are created and deleted in a round.
const SETS: usize = 1000;
/// Maximum lifetime of a set, in milliseconds.
const LONGEST_LIFETIME_MS: u64 = 100;
/// Time limit for the deletion of all sets and pods: kube-controller-manager, whose requests are
/// throttled, creates and deletes thousands of objects.
const DELETION_TIMEOUT: Duration = Duration::from_secs(600);

/// STS-32..35: sets that are deleted immediately after their creation leak no claims.
#[tokio::test]
#[ignore = "takes minutes: cargo test --test scenarios leaks -- --ignored --nocapture"]
async fn short_lived_sets_leak_no_claims() -> Result<()> {
    let in_tree = ShortLivedSets::new(in_tree().await?, "leaks").await?;
    in_tree.leaked("in-tree", SETS, LONGEST_LIFETIME_MS).await?;
    let mut longest = LONGEST_LIFETIME_MS;
    for _ in 0..ROUNDS {
        let cluster = guarded().await?;
        let short_lived = ShortLivedSets::new(cluster.clone(), "leaks").await?;
        let open_before = failed_open(&cluster).await?;
        let Some(leaked) = short_lived.leaked("volume-warden", SETS, longest).await? else {
            // The busy StatefulSet controller created too few claims before the sets were deleted.
            longest *= 4;
            continue;
        };
        if leaked.is_empty() {
            return Ok(());
        }
        // On a busy machine the webhook or its live read may time out, and then a claim can be
        // leaked. A round with leaked claims counts only if none of them timed out.
        let in_time = failed_open(&cluster).await? == open_before
            && all_sets_were_read(&short_lived.sets.space)?;
        let first: Vec<_> = leaked.iter().take(10).collect();
        ensure!(
            !in_time,
            "{} claims are leaked, among them {first:?}",
            leaked.len()
        );
    }
    bail!(
        "in each of {ROUNDS} rounds too few claims were created, or the webhook or its live read \
         timed out"
    )
}

/// A namespace where sets are created and deleted.
struct ShortLivedSets {
    sets: SetSpace,
    configs: Api<ConfigMap>,
    start: Mark,
}

impl ShortLivedSets {
    async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let sets = SetSpace::new(cluster.clone(), label).await?;
        Ok(Self {
            configs: Api::namespaced(cluster.client(), &sets.space.name),
            start: cluster.audit().mark()?,
            sets,
        })
    }

    /// Creates and deletes `number` sets, and returns the leaked claims; `None` if too few claims
    /// were created for a valid test.
    async fn leaked(
        &self,
        setup: &str,
        number: usize,
        longest: u64,
    ) -> Result<Option<BTreeSet<String>>> {
        self.create_and_delete_all(number, longest).await?;
        let leaked = self.leftover_claims().await?;
        let created = self.report(setup, number, &leaked)?;
        Ok((created > 1).then_some(leaked))
    }

    /// Creates `number` sets, and deletes each after a random time up to `longest` milliseconds.
    async fn create_and_delete_all(&self, number: usize, longest: u64) -> Result<()> {
        let mut random = fastrand::Rng::with_seed(1);
        let delays = std::iter::repeat_with(|| Duration::from_millis(random.u64(0..=longest)));
        stream::iter(delays.take(number).enumerate())
            .map(|(index, delay)| self.create_and_delete(index, delay))
            .buffer_unordered(CONCURRENT_SETS)
            .try_collect()
            .await
    }

    async fn create_and_delete(&self, index: usize, delay: Duration) -> Result<()> {
        let name = format!("short{index}");
        let policy = [DELETE_RETAIN, DELETE_DELETE][index % 2];
        let wanted = set(&name, REPLICAS, policy, provisioned())?;
        let sets = &self.sets.sets;
        sets.create(&PostParams::default(), &wanted).await?;
        // This sleep does not wait for a condition: it is the lifetime of the set.
        tokio::time::sleep(delay).await;
        self.sets.delete(&name, &DeleteParams::background()).await
    }

    /// Waits until no more objects are deleted, and returns the claims that still exist.
    async fn leftover_claims(&self) -> Result<BTreeSet<String>> {
        eventually_within(
            DELETION_TIMEOUT,
            "the sets and their pods are deleted",
            async || {
                let all = ListParams::default().limit(1);
                let sets = self.sets.sets.list_metadata(&all).await?.items.len();
                let pods = self.sets.space.pods.list_metadata(&all).await?.items.len();
                ensure!(sets + pods == 0, "some sets or pods still exist");
                anyhow::Ok(())
            },
        )
        .await?;
        // When kube-controller-manager has created the pod of a later set, it has processed all
        // deletions.
        self.sets.create("after", 1, RETAIN_RETAIN).await?;
        let deletion = eventually("all claims are deleted", async || {
            anyhow::Ok(self.claims().await?.is_empty())
        });
        if deletion.await.is_err() {
            self.garbage_is_collected().await?;
        }
        self.claims().await
    }

    /// The names of the claims of the sets that were created and deleted.
    async fn claims(&self) -> Result<BTreeSet<String>> {
        let claims = &self.sets.space.claims;
        let claims = claims.list_metadata(&ListParams::default()).await?;
        let of_short_lived_set = |name: &String| name.starts_with("data-short");
        Ok(claims
            .iter()
            .map(ResourceExt::name_any)
            .filter(of_short_lived_set)
            .collect())
    }

    /// Waits until the garbage collector has deleted an object whose owner is deleted now. By then
    /// it has also deleted the objects whose owners were deleted earlier.
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
        eventually("the dependent of a deleted owner is deleted", async || {
            anyhow::Ok(self.configs.get_opt(&owned).await?.is_none())
        })
        .await
    }

    async fn create_config(&self, metadata: Value) -> Result<ConfigMap> {
        let config = serde_json::from_value(json!({"metadata": metadata}))?;
        Ok(self.configs.create(&PostParams::default(), &config).await?)
    }

    /// Prints the figures, and returns the number of created claims.
    fn report(&self, setup: &str, number: usize, leaked: &BTreeSet<String>) -> Result<usize> {
        let space = &self.sets.space;
        let calls = space.cluster.audit().since(self.start)?.by_user(CONTROLLER);
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
            "{setup}: {number} sets of {REPLICAS} replicas, {created} claims created, {refused} refused, {} owner writes in conflict, {} leaked",
            count("update", 409),
            leaked.len(),
        );
        Ok(created)
    }
}

/// Changes to a set: the StorageClass of its claims provisions volumes at once.
fn provisioned() -> Value {
    json!({"spec": {"volumeClaimTemplates": [{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}},
    }]}})
}
