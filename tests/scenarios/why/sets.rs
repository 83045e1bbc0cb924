//! Faults of StatefulSets that have fewer ready pods than replicas.

use super::{
    objects::delete_claim,
    pods::limit_claims,
    support::{Case, Fault, WhyFixture},
};
use crate::support::{
    Space,
    sets::{Policy, RETAIN_DELETE, RETAIN_RETAIN, set},
};
use anyhow::{Context, Result, ensure};
use futures::{FutureExt, future::LocalBoxFuture};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden::why::Code;
use volume_warden_controlplane::eventually;

/// The faults of StatefulSets.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "set with a stale claim",
        root: Code::InUse,
        inject: stale_claim,
    },
    Fault {
        name: "set whose pod has a claim without a class",
        root: Code::ClassMissing,
        inject: no_class,
    },
    Fault {
        name: "set whose claim a quota refuses",
        root: Code::QuotaExhausted,
        inject: refused_by_quota,
    },
    Fault {
        name: "set whose pod does not go",
        root: Code::ForeignFinalizer,
        inject: pod_with_finalizer,
    },
];

/// Creates the StatefulSet `web`.
async fn create_set(space: &Space, replicas: i32, policy: Policy, changes: Value) -> Result<()> {
    let sets = Api::<StatefulSet>::namespaced(space.cluster.client(), &space.name);
    let set = set("web", replicas, policy, changes)?;
    sets.create(&PostParams::default(), &set).await?;
    Ok(())
}

/// Removes the node name from the pod template, so that the scheduler places the pods.
fn without_node_name() -> Value {
    json!({"spec": {"template": {"spec": {"nodeName": null}}}})
}

fn stale_claim(_: Arc<WhyFixture>, space: Space) -> LocalBoxFuture<'static, Result<Case>> {
    async move {
        space.create_claim("data-web-0").await?;
        space.create_running_pod("holder", "data-web-0").await?;
        delete_claim(&space, "data-web-0").await?;
        create_set(&space, 1, RETAIN_RETAIN, without_node_name()).await?;
        Ok(Case::new(
            &["statefulset", "web", "-n", &space.name],
            &format!("kubectl delete pod holder -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn no_class(_: Arc<WhyFixture>, space: Space) -> LocalBoxFuture<'static, Result<Case>> {
    async move {
        create_set(&space, 2, RETAIN_RETAIN, without_node_name()).await?;
        Ok(Case::new(
            &["statefulset", "web", "-n", &space.name],
            "kubectl get storageclass",
        ))
    }
    .boxed_local()
}

fn refused_by_quota(_: Arc<WhyFixture>, space: Space) -> LocalBoxFuture<'static, Result<Case>> {
    async move {
        limit_claims(&space, 1).await?;
        create_set(&space, 2, RETAIN_RETAIN, json!({})).await?;
        Ok(Case::new(
            &["statefulset", "web", "-n", &space.name],
            &format!("kubectl describe resourcequota small -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn pod_with_finalizer(_: Arc<WhyFixture>, space: Space) -> LocalBoxFuture<'static, Result<Case>> {
    async move {
        create_set(&space, 1, RETAIN_RETAIN, json!({})).await?;
        eventually("the pod exists", async || {
            space.pods.get("web-0").await.map(drop)
        })
        .await?;
        let finalizer = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold"]}}));
        let parameters = PatchParams::default();
        space.pods.patch("web-0", &parameters, &finalizer).await?;
        space.delete_pod("web-0").await?;
        let command = format!("kubectl get pod web-0 -n {} -o yaml", space.name);
        Ok(Case::new(
            &["statefulset", "web", "-n", &space.name],
            &command,
        ))
    }
    .boxed_local()
}

/// The chain of causes is empty, and the state reports what the retention policy does with the
/// claims.
#[tokio::test]
async fn a_set_that_has_all_its_pods_is_complete() -> Result<()> {
    let fixture = WhyFixture::get().await?;
    let space = Space::new(fixture.cluster.clone(), "why-complete").await?;
    create_set(&space, 2, RETAIN_DELETE, json!({})).await?;
    let arguments = ["statefulset", "web", "-n", &space.name];
    eventually("the StatefulSet is complete", async || {
        let answer = fixture.reader.answer(&arguments).await?;
        let state = answer["state"].as_str().context("no state")?;
        ensure!(
            state
                == "complete: all 2 pods are ready. Its claims are kept when the StatefulSet is deleted, and are deleted when their pods are removed by scaling down",
            "{answer:#}"
        );
        ensure!(answer["chain"].as_array().is_some_and(Vec::is_empty));
        Ok(())
    })
    .await
}

/// The chain names the stale claim that blocks the pod, before the pod that uses the claim.
#[tokio::test]
async fn a_stale_claim_is_named() -> Result<()> {
    let fixture = WhyFixture::get().await?;
    let space = Space::new(fixture.cluster.clone(), "why-stale").await?;
    let case = stale_claim(fixture.clone(), space).await?;
    let arguments: Vec<&str> = case.arguments.iter().map(String::as_str).collect();
    eventually("why names the stale claim and the pod", async || {
        let answer = fixture.reader.answer(&arguments).await?;
        let chain = answer["chain"].as_array().context("no chain")?;
        let reported = chain.iter().map(|cause| &cause["code"]);
        ensure!(reported.eq(["PodBlockedByClaim", "InUse"]), "{answer:#}");
        Ok(())
    })
    .await
}
