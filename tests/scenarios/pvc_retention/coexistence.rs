//! Volume Warden together with the retention of kube-controller-manager, which every cluster has:
//! both agree and reach a steady state, and Volume Warden covers the cases that Kubernetes leaves
//! open.

use super::{
    admission::stamps_are_given,
    late_reviews::{all_were_read, failed_open},
    support::{DELETE_DELETE, DELETE_RETAIN, Policy, RETAIN_DELETE, RETAIN_RETAIN, SetSpace, set},
};
use crate::support::{
    BINARY, manifests, repository,
    shared::{Running, Shared, Slot},
};
use anyhow::{Context, Result, bail, ensure};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use volume_warden_controlplane::{Cluster, Warden, eventually, eventually_within};

/// Timeout for several attempts, each of which waits several times.
const REST: Duration = Duration::from_secs(600);

/// An unmodified cluster, and one Volume Warden with only this component, which serves its
/// webhooks.
async fn together() -> Result<Shared> {
    static TOGETHER: Slot = Slot::new();
    let start = async || {
        let cluster = Cluster::in_tree().name("together").start().await?;
        manifests::apply(&cluster, &repository().join("manifests")).await?;
        let warden = Warden::builder(&cluster, BINARY).arg("--components=pvc-retention");
        let warden = warden.serving().start().await?;
        stamps_are_given(&cluster).await?;
        anyhow::Ok(Running::with(cluster, warden))
    };
    TOGETHER.get(start).await
}

/// Uids and resourceVersions.
type Versions = BTreeMap<String, [String; 2]>;

/// The versions of all claims but canaries.
async fn versions(sets: &SetSpace) -> Result<Versions> {
    let list = sets.space.claims.list_metadata(&Default::default()).await?;
    let claims = list.items.into_iter().map(|claim| {
        let version = claim.resource_version().unwrap_or_default();
        (claim.name_any(), [claim.uid().unwrap_or_default(), version])
    });
    let of_test = claims.filter(|(name, _)| !name.contains("canary"));
    Ok(of_test.collect())
}

/// Waits until both controllers sync the set `web` and neither writes its claims. From then on,
/// neither writes them at the next sync.
async fn come_to_rest(sets: &SetSpace, replicas: i32) -> Result<()> {
    eventually_within(REST, "the claims are not written any more", async || {
        sync_without_writes(sets, replicas).await
    })
    .await?;
    sync_without_writes(sets, replicas).await
}

async fn sync_without_writes(sets: &SetSpace, replicas: i32) -> Result<()> {
    static HISTORY: AtomicU32 = AtomicU32::new(1);
    let audit = sets.space.cluster.audit();
    let (before, mark) = (versions(sets).await?, audit.mark()?);
    // A change without effect but with a new generation, which Kubernetes reports as observed.
    let limit = json!({"revisionHistoryLimit": HISTORY.fetch_add(1, Ordering::Relaxed)});
    sets.patch("web", json!({"spec": limit})).await?;
    sets.has_ready("web", replicas).await?;
    sets.settled().await?;
    let calls = audit.since(mark)?.writes();
    let path = format!("/{}/persistentvolumeclaims/data-web-", sets.space.name);
    let writes: Vec<_> = calls
        .iter()
        .filter(|call| call.uri.contains(&path))
        .collect();
    ensure!(writes.is_empty(), "{writes:?}");
    ensure!(before == versions(sets).await?, "{before:?}");
    Ok(())
}

/// The claims of ordinals below `count` have the set as owner or no owner, by the policy.
async fn are_owned(sets: &SetSpace, count: usize, policy: Policy) -> Result<()> {
    let owners: &[&str] = match policy.0 {
        "Delete" => &["StatefulSet/web"],
        _ => &[],
    };
    for ordinal in 0..count {
        let claim = format!("data-web-{ordinal}");
        sets.claim_is_owned_by(&claim, owners).await?;
    }
    Ok(())
}

/// The claims of these ordinals are gone, or still the same ones.
async fn are_gone(
    sets: &SetSpace,
    before: &Versions,
    ordinals: Range<usize>,
    gone: bool,
) -> Result<()> {
    for ordinal in ordinals {
        let claim = format!("data-web-{ordinal}");
        if gone {
            sets.space.claim_is_gone(&claim).await?;
        } else {
            let [uid, _] = before.get(&claim).context("a claim from before")?;
            ensure!(sets.uid_of_claim(&claim).await? == *uid, "{claim}");
        }
    }
    Ok(())
}

/// Create, scale down and up, switch to the opposite policy, scale down, delete.
async fn story(policy: Policy, opposite: Policy) -> Result<()> {
    let sets = SetSpace::new(together().await?, "story").await?;
    sets.create("web", 3, policy).await?;
    are_owned(&sets, 3, policy).await?;
    come_to_rest(&sets, 3).await?;

    let before = versions(&sets).await?;
    sets.scale("web", 1).await?;
    sets.has_ready("web", 1).await?;
    come_to_rest(&sets, 1).await?;
    are_gone(&sets, &before, 1..3, policy.1 == "Delete").await?;
    are_gone(&sets, &before, 0..1, false).await?;
    sets.scale("web", 3).await?;
    sets.has_ready("web", 3).await?;
    are_owned(&sets, 3, policy).await?;
    come_to_rest(&sets, 3).await?;

    let before = versions(&sets).await?;
    sets.set_policy("web", opposite).await?;
    are_owned(&sets, 3, opposite).await?;
    come_to_rest(&sets, 3).await?;
    sets.scale("web", 2).await?;
    sets.has_ready("web", 2).await?;
    come_to_rest(&sets, 2).await?;
    are_gone(&sets, &before, 2..3, opposite.1 == "Delete").await?;
    are_gone(&sets, &before, 0..2, false).await?;

    sets.delete("web", &DeleteParams::background()).await?;
    eventually("the set's pods are gone", async || {
        let pods = sets.space.pods.list(&Default::default()).await?;
        anyhow::Ok(pods.items.is_empty())
    })
    .await?;
    sets.settled().await?;
    are_gone(&sets, &before, 0..2, opposite.0 == "Delete").await
}

#[tokio::test]
async fn retain_and_the_opposite() -> Result<()> {
    story(RETAIN_RETAIN, DELETE_DELETE).await
}

#[tokio::test]
async fn delete_when_scaled_and_the_opposite() -> Result<()> {
    story(RETAIN_DELETE, DELETE_RETAIN).await
}

#[tokio::test]
async fn delete_with_the_set_and_the_opposite() -> Result<()> {
    story(DELETE_RETAIN, RETAIN_DELETE).await
}

#[tokio::test]
async fn delete_both_ways_and_the_opposite() -> Result<()> {
    story(DELETE_DELETE, RETAIN_RETAIN).await
}

/// Kubernetes updates the claims of existing pods only: after a policy change it would keep claims
/// to delete and delete claims to keep.
#[tokio::test]
async fn claims_without_pods_follow_the_policy() -> Result<()> {
    let sets = SetSpace::new(together().await?, "podless").await?;
    sets.create("web", 3, RETAIN_RETAIN).await?;
    sets.scale("web", 1).await?;
    sets.has_ready("web", 1).await?;
    for policy in [DELETE_RETAIN, RETAIN_RETAIN, DELETE_RETAIN] {
        sets.set_policy("web", policy).await?;
        are_owned(&sets, 3, policy).await?;
        come_to_rest(&sets, 1).await?;
    }
    sets.delete("web", &DeleteParams::background()).await?;
    for ordinal in 0..3 {
        let claim = format!("data-web-{ordinal}");
        sets.space.claim_is_gone(&claim).await?;
    }
    Ok(())
}

/// Claims that are provisioned at once, so that other controllers write them while they get their
/// owners, of sets that are deleted at once.
#[tokio::test]
async fn short_lived_sets_leave_no_claims() -> Result<()> {
    let cluster = together().await?;
    for _ in 0..3 {
        let sets = SetSpace::new(cluster.clone(), "brief").await?;
        let open = failed_open(&cluster).await?;
        let lived = hardly_live(&sets).await;
        // On a busy machine the webhook or its live read may time out: then a claim can be left
        // behind. The next round decides.
        let in_time = async || {
            anyhow::Ok(failed_open(&cluster).await? == open && all_were_read(&sets.space)?)
        };
        if lived.is_ok() || in_time().await? {
            return lived;
        }
    }
    bail!("the webhook was too late in each round")
}

async fn hardly_live(sets: &SetSpace) -> Result<()> {
    let provisioned = json!({"spec": {"volumeClaimTemplates": [{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}},
    }]}});
    for number in 0..12 {
        let name = format!("brief{number}");
        let wanted = set(&name, 3, DELETE_RETAIN, provisioned.clone())?;
        sets.sets.create(&PostParams::default(), &wanted).await?;
        if number % 2 == 1 {
            eventually("the set has a claim", async || {
                let claim = format!("data-{name}-0");
                anyhow::Ok(sets.space.claims.get_opt(&claim).await?)
            })
            .await?;
        }
        sets.delete(&name, &DeleteParams::background()).await?;
    }
    // By then the StatefulSet controller has processed the earlier sets.
    sets.create("web", 1, RETAIN_RETAIN).await?;
    eventually("no claim of these sets is left", async || {
        let claims = versions(sets).await?;
        ensure!(claims.keys().eq(["data-web-0"]), "{:?}", claims.keys());
        Ok(())
    })
    .await
}

/// Spec observation E4: Kubernetes recognizes its reference by the uid and removes it by the
/// apiVersion, so with another apiVersion it writes at every sync and changes nothing.
#[tokio::test]
async fn a_ref_that_in_tree_never_finishes_is_repaired() -> Result<()> {
    let sets = SetSpace::new(together().await?, "version").await?;
    let created = sets.create("web", 1, DELETE_RETAIN).await?;
    are_owned(&sets, 1, DELETE_RETAIN).await?;
    come_to_rest(&sets, 1).await?;
    let owner = json!({
        "apiVersion": "apps/v1beta1", "kind": "StatefulSet", "name": "web", "uid": created.metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    sets.space
        .patch_claim(
            "data-web-0",
            json!({"metadata": {"ownerReferences": [owner]}}),
        )
        .await?;
    eventually("the ref is repaired", async || {
        let owners = sets.owners("data-web-0").await?;
        let versions: Vec<_> = owners.iter().map(|owner| &*owner.api_version).collect();
        ensure!(versions == ["apps/v1"], "{owners:?}");
        Ok(())
    })
    .await?;
    are_owned(&sets, 1, DELETE_RETAIN).await?;
    come_to_rest(&sets, 1).await
}
