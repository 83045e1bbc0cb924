//! Claims that do not go, and what is to become of those that live.

use super::{
    objects::{bound, delete_claim},
    support::{Case, Fault, Seeded, Stage},
};
use crate::support::{
    Space,
    sets::{DELETE_RETAIN, Policy, RETAIN_RETAIN, set},
};
use anyhow::Result;
use futures::FutureExt;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{Api, api::PostParams};
use serde_json::json;
use std::sync::Arc;
use volume_warden::why::Code;

/// All of them.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "used by a pod",
        root: Code::InUse,
        seed: used,
    },
    Fault {
        name: "used by a finished pod",
        root: Code::FinishedPod,
        seed: used_by_a_finished_pod,
    },
    Fault {
        name: "foreign finalizer",
        root: Code::ForeignFinalizer,
        seed: foreign_finalizer,
    },
    Fault {
        name: "kept by policy",
        root: Code::KeptByPolicy,
        seed: kept_by_policy,
    },
    Fault {
        name: "deleted by policy",
        root: Code::DeletedByPolicy,
        seed: deleted_by_policy,
    },
];

fn used(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        space.create_claim("data").await?;
        space.create_running_pod("user", "data").await?;
        delete_claim(&space, "data").await?;
        let command = format!("kubectl delete pod user -n {}", space.name);
        Ok(Case::new(&["pvc", "data", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn used_by_a_finished_pod(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        space.create_claim("data").await?;
        space.create_running_pod("user", "data").await?;
        space
            .patch_pod_status("user", json!({"phase": "Succeeded"}))
            .await?;
        delete_claim(&space, "data").await?;
        let command = format!("kubectl delete pod user -n {}", space.name);
        Ok(Case::new(&["pvc", "data", "-n", &space.name], &command))
    }
    .boxed_local()
}

/// A finalizer of a controller that `why` does not know.
fn foreign_finalizer(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        space.create_claim("data").await?;
        // What is written then is all of them.
        space.claim_is_protected("data").await?;
        let finalizers = space.finalizers("data").await?;
        let all: Vec<String> = finalizers
            .into_iter()
            .chain(["example.com/guard".to_owned()])
            .collect();
        space
            .patch_claim("data", json!({"metadata": {"finalizers": all}}))
            .await?;
        space.delete_claim("data").await?;
        let command = format!(
            "kubectl get pvc data -n {} -o yaml --show-managed-fields",
            space.name
        );
        Ok(Case::new(&["pvc", "data", "-n", &space.name], &command))
    }
    .boxed_local()
}

async fn of_a_set(space: &Space, policy: Policy) -> Result<Case> {
    bound(space, "data-web-0", json!({})).await?;
    let sets: Api<StatefulSet> = Api::namespaced(space.cluster.client(), &space.name);
    sets.create(&PostParams::default(), &set("web", 1, policy, json!({}))?)
        .await?;
    Ok(Case::without_command(&[
        "pvc",
        "data-web-0",
        "-n",
        &space.name,
    ]))
}

fn kept_by_policy(_: Arc<Stage>, space: Space) -> Seeded {
    async move { of_a_set(&space, RETAIN_RETAIN).await }.boxed_local()
}

fn deleted_by_policy(_: Arc<Stage>, space: Space) -> Seeded {
    async move { of_a_set(&space, DELETE_RETAIN).await }.boxed_local()
}
