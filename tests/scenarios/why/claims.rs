//! Faults of claims that stay Terminating, and claims that a retention policy keeps or deletes.

use super::{
    objects::{bound, delete_claim},
    support::{Case, Fault, Injection, WhyFixture},
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

/// The faults of deleted claims and of claims of a StatefulSet.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "used by a pod",
        root: Code::InUse,
        inject: used_by_a_pod,
    },
    Fault {
        name: "used by a finished pod",
        root: Code::FinishedPod,
        inject: used_by_a_finished_pod,
    },
    Fault {
        name: "foreign finalizer",
        root: Code::ForeignFinalizer,
        inject: foreign_finalizer,
    },
    Fault {
        name: "kept by policy",
        root: Code::KeptByPolicy,
        inject: kept_by_policy,
    },
    Fault {
        name: "deleted by policy",
        root: Code::DeletedByPolicy,
        inject: deleted_by_policy,
    },
];

fn used_by_a_pod(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        space.create_claim("data").await?;
        space.create_running_pod("user", "data").await?;
        delete_claim(&space, "data").await?;
        let command = format!("kubectl delete pod user -n {}", space.name);
        Ok(Case::new(&["pvc", "data", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn used_by_a_finished_pod(_: Arc<WhyFixture>, space: Space) -> Injection {
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

/// The claim has a finalizer of a controller that `why` does not know.
fn foreign_finalizer(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        space.create_claim("data").await?;
        // The patch replaces all finalizers, so it must include the protection finalizer.
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

/// Creates a StatefulSet with this retention policy, and returns a case about its claim.
async fn claim_of_a_set(space: &Space, policy: Policy) -> Result<Case> {
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

fn kept_by_policy(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move { claim_of_a_set(&space, RETAIN_RETAIN).await }.boxed_local()
}

fn deleted_by_policy(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move { claim_of_a_set(&space, DELETE_RETAIN).await }.boxed_local()
}
