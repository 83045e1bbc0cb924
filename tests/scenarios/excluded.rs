//! Namespaces that have opted out by the label `volume-warden.dev/exclude`.

use crate::{
    pvc_provisioner::support::Askers,
    pvc_retention::support::{DELETE_RETAIN, MARK, RETAIN_RETAIN, SetSpace},
    support::{Space, claim, guarded},
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

/// Labels the namespace, and waits until a new claim there gets no finalizer: neither at admission,
/// nor before a later claim of another namespace has its own.
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
async fn an_excluded_namespace_gets_nothing() -> Result<()> {
    let cluster = guarded().await?;
    let outside = Askers::new(cluster.clone(), "excluded").await?;
    let inside = Askers::new(cluster, "included").await?;
    exclude(&outside.space, &inside.space).await?;

    outside.ask("asks", "asked", json!({})).await?;
    let pod = inside.ask("asks", "asked", json!({})).await?;
    inside.belongs("asked", &pod).await?;
    let created = outside.space.claims.get_opt("asked").await?;
    ensure!(created.is_none(), "a claim is created for a pod");

    // A pod on a node is refused a claim that is being deleted, but not there.
    for (askers, is_refused) in [(&inside, true), (&outside, false)] {
        let hold = json!({"metadata": {"finalizers": ["example.com/hold", FINALIZER]}});
        askers.create_claim("leaving", hold).await?;
        askers.space.delete_claim("leaving").await?;
        eventually("the guard knows of the deletion", async || {
            let created = askers.space.create_pod_on_node("late", "leaving").await?;
            let refused = created.is_err();
            if !refused {
                askers.space.delete_pod("late").await?;
            }
            ensure!(refused == is_refused, "refused: {refused}");
            Ok(())
        })
        .await?;
    }
    let release = json!({"metadata": {"finalizers": null}});
    inside.space.patch_claim("leaving", release.clone()).await?;
    outside.space.patch_claim("leaving", release).await?;

    label(&outside.space, "volume-warden.dev/exclude-").await?;
    eventually("a new claim is protected again", async || {
        let name = "later";
        let parameters = PostParams::default();
        if outside.space.claims.get_opt(name).await?.is_none() {
            let later = claim(name, json!({}))?;
            outside.space.claims.create(&parameters, &later).await?;
        }
        let protected = outside.space.finalizers(name).await?;
        ensure!(protected == [FINALIZER], "{protected:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_excluded_namespace_loses_what_it_has() -> Result<()> {
    let cluster = guarded().await?;
    let outside = SetSpace::new(cluster.clone(), "excluded").await?;
    let inside = SetSpace::new(cluster, "included").await?;
    outside.create("web", 1, DELETE_RETAIN).await?;
    let owned = ["StatefulSet/web"];
    outside.claim_is_owned_by("data-web-0", &owned).await?;
    outside.space.create_claim("used").await?;
    outside.space.claim_is_protected("used").await?;
    exclude(&outside.space, &inside.space).await?;

    // Neither the finalizer nor the owner is needed any more.
    outside.space.delete_claim("used").await?;
    outside.space.claim_is_gone("used").await?;
    outside.set_policy("web", RETAIN_RETAIN).await?;
    outside.claim_is_owned_by("data-web-0", &[]).await?;

    // Nothing is added, although the policy demands it.
    for sets in [&outside, &inside] {
        sets.create("new", 1, DELETE_RETAIN).await?;
    }
    let owned = ["StatefulSet/new"];
    inside.claim_is_owned_by("data-new-0", &owned).await?;
    let claim = outside.claim("data-new-0").await?;
    ensure!(claim.owner_references().is_empty(), "{:?}", claim.metadata);
    ensure!(
        !claim.annotations().contains_key(MARK),
        "{:?}",
        claim.metadata
    );
    Ok(())
}
