//! Namespaces that have opted out by the label `volume-warden.dev/exclude`.

use crate::{
    pvc_provisioner::support::PodSpace,
    pvc_retention::support::{DELETE_RETAIN, MARK, RETAIN_RETAIN, SetSpace},
    support::{Space, claim, guarded, is_refused},
};
use anyhow::{Result, ensure};
use kube::{ResourceExt, api::PostParams};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use volume_warden_controlplane::eventually;

const FINALIZER: &str = "kubernetes.io/pvc-protection";

async fn label(space: &Space, label: &str) -> Result<()> {
    let label = ["label", "namespace", &space.name, label];
    space.cluster.kubectl(&label).await.map(drop)
}

/// Labels the namespace, and waits until a new claim in it gets no finalizer: neither at admission,
/// nor until a claim that is created later in another namespace has its finalizer.
async fn exclude(space: &Space, other: &Space) -> Result<()> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    label(space, "volume-warden.dev/exclude=true").await?;
    eventually("the namespace is excluded", async || {
        let probe = format!("probe-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        space.create_claim(&probe).await?;
        other.create_claim(&probe).await?;
        other.claim_is_protected(&probe).await?;
        let finalizers = space.finalizers(&probe).await?;
        ensure!(finalizers.is_empty(), "{finalizers:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_excluded_namespace_is_not_handled() -> Result<()> {
    let cluster = guarded().await?;
    let excluded = PodSpace::new(cluster.clone(), "excluded").await?;
    let included = PodSpace::new(cluster, "included").await?;
    exclude(&excluded.space, &included.space).await?;

    excluded.request_claim("asks", "asked", json!({})).await?;
    let pod = included.request_claim("asks", "asked", json!({})).await?;
    included.belongs("asked", &pod).await?;
    let created = excluded.space.claims.get_opt("asked").await?;
    ensure!(created.is_none(), "a claim is created for a pod");

    // A pod on a node whose claim is being deleted is refused, but not in the excluded namespace.
    // The claim there is deleted first: when the webhook knows of the later deletion, it knows of
    // both.
    let hold = json!({"metadata": {"finalizers": ["example.com/hold", FINALIZER]}});
    for pod_space in [&excluded, &included] {
        pod_space.create_claim("leaving", hold.clone()).await?;
        pod_space.space.delete_claim("leaving").await?;
    }
    eventually("the webhook knows of the deletions", async || {
        let space = &included.space;
        let created = space.create_pod_on_node("late", "leaving").await?;
        let refused = is_refused(created, "is being deleted")?;
        if !refused {
            space.delete_pod("late").await?;
        }
        anyhow::Ok(refused)
    })
    .await?;
    let created = excluded.space.create_pod_on_node("late", "leaving");
    created.await??;
    let release = json!({"metadata": {"finalizers": null}});
    included
        .space
        .patch_claim("leaving", release.clone())
        .await?;
    excluded.space.patch_claim("leaving", release).await?;

    label(&excluded.space, "volume-warden.dev/exclude-").await?;
    eventually("a new claim is protected again", async || {
        let name = "later";
        let parameters = PostParams::default();
        if excluded.space.claims.get_opt(name).await?.is_none() {
            let later = claim(name, json!({}))?;
            excluded.space.claims.create(&parameters, &later).await?;
        }
        let protected = excluded.space.finalizers(name).await?;
        ensure!(protected == [FINALIZER], "{protected:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_excluded_namespace_loses_finalizers_and_owners() -> Result<()> {
    let cluster = guarded().await?;
    let excluded = SetSpace::new(cluster.clone(), "excluded").await?;
    let included = SetSpace::new(cluster, "included").await?;
    excluded.create("web", 1, DELETE_RETAIN).await?;
    let owned = ["StatefulSet/web"];
    excluded.claim_is_owned_by("data-web-0", &owned).await?;
    excluded.space.create_claim("used").await?;
    excluded.space.claim_is_protected("used").await?;
    exclude(&excluded.space, &included.space).await?;

    // The finalizer and the owner are still removed when they are not needed any more.
    excluded.space.delete_claim("used").await?;
    excluded.space.claim_is_gone("used").await?;
    excluded.set_policy("web", RETAIN_RETAIN).await?;
    excluded.claim_is_owned_by("data-web-0", &[]).await?;

    // In the excluded namespace no owner is added, although the policy requires one.
    for sets in [&excluded, &included] {
        sets.create("new", 1, DELETE_RETAIN).await?;
    }
    let owned = ["StatefulSet/new"];
    included.claim_is_owned_by("data-new-0", &owned).await?;
    let claim = excluded.claim("data-new-0").await?;
    ensure!(claim.owner_references().is_empty(), "{:?}", claim.metadata);
    ensure!(
        !claim.annotations().contains_key(MARK),
        "{:?}",
        claim.metadata
    );
    Ok(())
}
