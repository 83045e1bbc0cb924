//! Volume Warden together with the retention of kube-controller-manager, which every cluster has.
//! Both write the same owner references and reach a stable state, and Volume Warden also handles
//! claims that Kubernetes does not update.

use super::{
    admission::retention_webhook_answers,
    late_reviews::{all_sets_were_read, failed_open},
    support::{DELETE_DELETE, DELETE_RETAIN, Policy, RETAIN_DELETE, RETAIN_RETAIN, SetSpace, set},
};
use crate::support::{
    BINARY, manifests, repository,
    shared::{Running, Shared, Slot},
    webhook_timeouts::raise_webhook_timeouts,
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

/// Timeout of [`wait_until_stable`], whose attempts each wait several times.
const STABLE_TIMEOUT: Duration = Duration::from_secs(600);

/// An unmodified cluster with the manifests applied and one Volume Warden, which runs only
/// `pvc-retention` and serves its webhooks.
async fn cluster_with_both() -> Result<Shared> {
    static CLUSTER: Slot = Slot::new();
    let start = async || {
        let cluster = Cluster::in_tree().name("together").start().await?;
        manifests::apply(&cluster, &repository().join("manifests")).await?;
        raise_webhook_timeouts(&cluster, None).await?;
        let warden = Warden::builder(&cluster, BINARY).arg("--components=pvc-retention");
        let warden = warden.serving().start().await?;
        retention_webhook_answers(&cluster).await?;
        anyhow::Ok(Running::with(cluster, warden))
    };
    CLUSTER.get(start).await
}

/// The uid and the resourceVersion of each claim by its name.
type Versions = BTreeMap<String, [String; 2]>;

/// The versions of all claims except those of [`SetSpace::changes_are_processed`].
async fn versions(sets: &SetSpace) -> Result<Versions> {
    let list = sets.space.claims.list_metadata(&Default::default()).await?;
    let claims = list.items.into_iter().map(|claim| {
        let version = claim.resource_version().unwrap_or_default();
        (claim.name_any(), [claim.uid().unwrap_or_default(), version])
    });
    let claims = claims.filter(|(name, _)| !name.contains("canary"));
    Ok(claims.collect())
}

/// Waits until both controllers sync the set `web` and neither writes its claims. Then checks that
/// neither writes them at the next sync.
async fn wait_until_stable(sets: &SetSpace, replicas: i32) -> Result<()> {
    let what = "the claims are not written at a sync";
    eventually_within(STABLE_TIMEOUT, what, async || {
        sync_without_writes(sets, replicas).await
    })
    .await?;
    sync_without_writes(sets, replicas).await
}

/// Makes both controllers sync the set `web`, and fails if a claim of the set is written meanwhile.
async fn sync_without_writes(sets: &SetSpace, replicas: i32) -> Result<()> {
    static HISTORY_LIMIT: AtomicU32 = AtomicU32::new(1);
    let audit = sets.space.cluster.audit();
    let (before, mark) = (versions(sets).await?, audit.mark()?);
    // The change has no effect except for a new generation, which Kubernetes reports as observed.
    let limit = HISTORY_LIMIT.fetch_add(1, Ordering::Relaxed);
    let spec = json!({"revisionHistoryLimit": limit});
    sets.patch("web", json!({"spec": spec})).await?;
    sets.has_ready("web", replicas).await?;
    sets.changes_are_processed().await?;
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

/// Waits until the claims of ordinals below `count` have the owner that `whenDeleted` requires: the
/// set, or none.
async fn claims_are_owned(sets: &SetSpace, count: usize, policy: Policy) -> Result<()> {
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

/// If `deleted`, waits until the claims of these ordinals are deleted. Otherwise, checks that they
/// have the same uids as in `before`.
async fn check_deletion(
    sets: &SetSpace,
    before: &Versions,
    ordinals: Range<usize>,
    deleted: bool,
) -> Result<()> {
    for ordinal in ordinals {
        let claim = format!("data-web-{ordinal}");
        if deleted {
            sets.space.claim_is_gone(&claim).await?;
        } else {
            let [uid, _] = before.get(&claim).context("no such claim before")?;
            ensure!(sets.uid_of_claim(&claim).await? == *uid, "{claim}");
        }
    }
    Ok(())
}

/// Creates a set with `policy`, scales it down and up, changes to the policy `opposite`, scales the
/// set down, and deletes it. Checks the claims after each step.
async fn story(policy: Policy, opposite: Policy) -> Result<()> {
    let sets = SetSpace::new(cluster_with_both().await?, "story").await?;
    sets.create("web", 3, policy).await?;
    claims_are_owned(&sets, 3, policy).await?;
    wait_until_stable(&sets, 3).await?;

    let before = versions(&sets).await?;
    sets.scale("web", 1).await?;
    sets.has_ready("web", 1).await?;
    wait_until_stable(&sets, 1).await?;
    check_deletion(&sets, &before, 1..3, policy.1 == "Delete").await?;
    check_deletion(&sets, &before, 0..1, false).await?;
    sets.scale("web", 3).await?;
    sets.has_ready("web", 3).await?;
    claims_are_owned(&sets, 3, policy).await?;
    wait_until_stable(&sets, 3).await?;

    let before = versions(&sets).await?;
    sets.set_policy("web", opposite).await?;
    claims_are_owned(&sets, 3, opposite).await?;
    wait_until_stable(&sets, 3).await?;
    sets.scale("web", 2).await?;
    sets.has_ready("web", 2).await?;
    wait_until_stable(&sets, 2).await?;
    check_deletion(&sets, &before, 2..3, opposite.1 == "Delete").await?;
    check_deletion(&sets, &before, 0..2, false).await?;

    sets.delete("web", &DeleteParams::background()).await?;
    eventually("the set's pods are deleted", async || {
        let pods = sets.space.pods.list(&Default::default()).await?;
        anyhow::Ok(pods.items.is_empty())
    })
    .await?;
    sets.changes_are_processed().await?;
    check_deletion(&sets, &before, 0..2, opposite.0 == "Delete").await
}

#[tokio::test]
async fn retain_retain_changes_to_delete_delete() -> Result<()> {
    story(RETAIN_RETAIN, DELETE_DELETE).await
}

#[tokio::test]
async fn retain_delete_changes_to_delete_retain() -> Result<()> {
    story(RETAIN_DELETE, DELETE_RETAIN).await
}

#[tokio::test]
async fn delete_retain_changes_to_retain_delete() -> Result<()> {
    story(DELETE_RETAIN, RETAIN_DELETE).await
}

#[tokio::test]
async fn delete_delete_changes_to_retain_retain() -> Result<()> {
    story(DELETE_DELETE, RETAIN_RETAIN).await
}

/// A policy change also applies to claims without a pod. Kubernetes updates only the claims of
/// existing pods: after a policy change it would keep claims that the new policy deletes, and
/// delete claims that the new policy retains.
#[tokio::test]
async fn claims_without_pods_follow_the_policy() -> Result<()> {
    let sets = SetSpace::new(cluster_with_both().await?, "podless").await?;
    sets.create("web", 3, RETAIN_RETAIN).await?;
    sets.scale("web", 1).await?;
    sets.has_ready("web", 1).await?;
    for policy in [DELETE_RETAIN, RETAIN_RETAIN, DELETE_RETAIN] {
        sets.set_policy("web", policy).await?;
        claims_are_owned(&sets, 3, policy).await?;
        wait_until_stable(&sets, 1).await?;
    }
    sets.delete("web", &DeleteParams::background()).await?;
    for ordinal in 0..3 {
        let claim = format!("data-web-{ordinal}");
        sets.space.claim_is_gone(&claim).await?;
    }
    Ok(())
}

/// Sets that are deleted immediately after their creation leak no claims. The claims are
/// provisioned at once, so other controllers write them while they get their owners.
#[tokio::test]
async fn short_lived_sets_leave_no_claims() -> Result<()> {
    let cluster = cluster_with_both().await?;
    for _ in 0..3 {
        let sets = SetSpace::new(cluster.clone(), "brief").await?;
        let open_before = failed_open(&cluster).await?;
        let result = create_and_delete_sets(&sets).await;
        // On a busy machine the webhook or its live read may time out, and then a claim can be
        // leaked. A failed round counts only if none of them timed out.
        let in_time = async || {
            let open = failed_open(&cluster).await?;
            anyhow::Ok(open == open_before && all_sets_were_read(&sets.space)?)
        };
        if result.is_ok() || in_time().await? {
            return result;
        }
    }
    bail!("in each round the webhook or its live read timed out")
}

/// Creates twelve sets and deletes each at once, every second one when its first claim exists.
/// Fails if their claims are not deleted.
async fn create_and_delete_sets(sets: &SetSpace) -> Result<()> {
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
    // When the pod of this set is ready, the StatefulSet controller has processed the earlier sets.
    sets.create("web", 1, RETAIN_RETAIN).await?;
    eventually("the claims of these sets are deleted", async || {
        let claims = versions(sets).await?;
        ensure!(claims.keys().eq(["data-web-0"]), "{:?}", claims.keys());
        Ok(())
    })
    .await
}

/// Observation E4 of the specification: Kubernetes recognizes its owner reference by the uid, and
/// removes it by the apiVersion. With a wrong apiVersion it writes the claim at every sync and
/// changes nothing. Volume Warden writes the correct apiVersion once.
#[tokio::test]
async fn an_owner_reference_with_a_wrong_api_version_is_repaired() -> Result<()> {
    let sets = SetSpace::new(cluster_with_both().await?, "version").await?;
    let created = sets.create("web", 1, DELETE_RETAIN).await?;
    claims_are_owned(&sets, 1, DELETE_RETAIN).await?;
    wait_until_stable(&sets, 1).await?;
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
    eventually("the owner reference is repaired", async || {
        let owners = sets.owners("data-web-0").await?;
        let versions: Vec<_> = owners.iter().map(|owner| &*owner.api_version).collect();
        ensure!(versions == ["apps/v1"], "{owners:?}");
        Ok(())
    })
    .await?;
    claims_are_owned(&sets, 1, DELETE_RETAIN).await?;
    wait_until_stable(&sets, 1).await
}
