//! StatefulSets that have fewer pods than they are to have.

use super::{
    objects::delete_claim,
    pods::allow_claims,
    support::{Case, Fault, Stage},
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

/// All of them.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "set with a stale claim",
        root: Code::InUse,
        seed: stale,
    },
    Fault {
        name: "set whose pod has a claim without a class",
        root: Code::ClassMissing,
        seed: no_class,
    },
    Fault {
        name: "set whose claim a quota refuses",
        root: Code::QuotaExhausted,
        seed: refused,
    },
    Fault {
        name: "set whose pod does not go",
        root: Code::ForeignFinalizer,
        seed: held,
    },
];

/// A set `web` whose pods are scheduled as all pods are.
async fn create(space: &Space, replicas: i32, policy: Policy, changes: Value) -> Result<()> {
    let sets = Api::<StatefulSet>::namespaced(space.cluster.client(), &space.name);
    let set = set("web", replicas, policy, changes)?;
    sets.create(&PostParams::default(), &set).await?;
    Ok(())
}

fn scheduled() -> Value {
    json!({"spec": {"template": {"spec": {"nodeName": null}}}})
}

fn stale(_: Arc<Stage>, space: Space) -> LocalBoxFuture<'static, Result<Case>> {
    async move {
        space.create_claim("data-web-0").await?;
        space.create_running_pod("holder", "data-web-0").await?;
        delete_claim(&space, "data-web-0").await?;
        create(&space, 1, RETAIN_RETAIN, scheduled()).await?;
        Ok(Case::new(
            &["statefulset", "web", "-n", &space.name],
            &format!("kubectl delete pod holder -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn no_class(_: Arc<Stage>, space: Space) -> LocalBoxFuture<'static, Result<Case>> {
    async move {
        create(&space, 2, RETAIN_RETAIN, scheduled()).await?;
        Ok(Case::new(
            &["statefulset", "web", "-n", &space.name],
            "kubectl get storageclass",
        ))
    }
    .boxed_local()
}

fn refused(_: Arc<Stage>, space: Space) -> LocalBoxFuture<'static, Result<Case>> {
    async move {
        allow_claims(&space, 1).await?;
        create(&space, 2, RETAIN_RETAIN, json!({})).await?;
        Ok(Case::new(
            &["statefulset", "web", "-n", &space.name],
            &format!("kubectl describe resourcequota small -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn held(_: Arc<Stage>, space: Space) -> LocalBoxFuture<'static, Result<Case>> {
    async move {
        create(&space, 1, RETAIN_RETAIN, json!({})).await?;
        eventually("the pod is there", async || {
            space.pods.get("web-0").await.map(drop)
        })
        .await?;
        let hold = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold"]}}));
        let parameters = PatchParams::default();
        space.pods.patch("web-0", &parameters, &hold).await?;
        space.delete_pod("web-0").await?;
        let command = format!("kubectl get pod web-0 -n {} -o yaml", space.name);
        Ok(Case::new(
            &["statefulset", "web", "-n", &space.name],
            &command,
        ))
    }
    .boxed_local()
}

/// Nothing is to be explained, and what becomes of the claims is reported.
#[tokio::test]
async fn a_set_that_has_all_its_pods_is_complete() -> Result<()> {
    let stage = Stage::get().await?;
    let space = Space::new(stage.cluster.clone(), "why-complete").await?;
    create(&space, 2, RETAIN_DELETE, json!({})).await?;
    let arguments = ["statefulset", "web", "-n", &space.name];
    eventually("it is complete", async || {
        let answer = stage.reader.answer(&arguments).await?;
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

/// Not only what keeps the claim.
#[tokio::test]
async fn a_stale_claim_is_named() -> Result<()> {
    let stage = Stage::get().await?;
    let space = Space::new(stage.cluster.clone(), "why-stale").await?;
    let case = stale(stage.clone(), space).await?;
    let arguments: Vec<&str> = case.arguments.iter().map(String::as_str).collect();
    let answer = stage.reader.answer(&arguments).await?;
    let codes = ["PodBlockedByClaim", "InUse"];
    let chain = answer["chain"].as_array().context("no chain")?;
    let reported = chain.iter().map(|cause| &cause["code"]);
    ensure!(reported.eq(codes), "{answer:#}");
    Ok(())
}
