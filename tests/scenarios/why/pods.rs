//! Faults of pods that do not run, and of a pod that stays Terminating.

use super::{
    objects::{bound, delete_claim},
    support::{Case, Fault, Injection, WhyFixture},
};
use crate::support::Space;
use anyhow::Result;
use futures::FutureExt;
use k8s_openapi::api::{
    core::v1::{Pod, ResourceQuota},
    storage::v1::StorageClass,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden::why::Code;
use volume_warden_controlplane::eventually;

/// The faults of pods.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "pod with a deleting claim",
        root: Code::InUse,
        inject: deleting_claim,
    },
    Fault {
        name: "pod with a missing claim",
        root: Code::ClaimMissing,
        inject: missing_claim,
    },
    Fault {
        name: "pod with an invalid template",
        root: Code::InvalidTemplate,
        inject: invalid_template,
    },
    Fault {
        name: "pod whose claim a quota refuses",
        root: Code::QuotaExhausted,
        inject: refused_by_quota,
    },
    Fault {
        name: "pod with a claim that no client makes",
        root: Code::ClaimMissing,
        inject: misspelled_claim,
    },
    Fault {
        name: "pod on a missing node whose own claim is being deleted",
        root: Code::NodeLost,
        inject: on_missing_node_with_deleting_claim,
    },
    Fault {
        name: "pod that failed",
        root: Code::NoVolumeProblem,
        inject: failed,
    },
    Fault {
        name: "pod without a node for its claim",
        root: Code::PodUnscheduled,
        inject: unscheduled,
    },
    Fault {
        name: "pod without a node and without a claim",
        root: Code::NoVolumeProblem,
        inject: no_volume,
    },
    Fault {
        name: "pod with a foreign finalizer",
        root: Code::ForeignFinalizer,
        inject: foreign_finalizer,
    },
];

/// A node selector that matches no node.
fn unsatisfiable_node_selector() -> Value {
    json!({"spec": {"nodeSelector": {"nowhere": "true"}}})
}

/// Puts the pod on a node that does not exist.
fn on_missing_node() -> Value {
    json!({"spec": {"nodeName": "elsewhere"}})
}

/// Annotations that request the claim of the volume `data`, with this template.
fn requesting_claim(template: &str) -> Value {
    json!({"metadata": {"annotations": {
        "dynamic-pvc-provisioner.kubernetes.io/data.enabled": "true",
        "dynamic-pvc-provisioner.kubernetes.io/data.pvc": template,
    }}})
}

/// Creates a ResourceQuota that permits `count` claims, and waits until it has counted them.
pub async fn limit_claims(space: &Space, count: u32) -> Result<()> {
    let quotas = Api::<ResourceQuota>::namespaced(space.cluster.client(), &space.name);
    let quota = json!({"metadata": {"name": "small"}, "spec": {"hard": {"persistentvolumeclaims": count.to_string()}}});
    let quota = serde_json::from_value(quota)?;
    quotas.create(&PostParams::default(), &quota).await?;
    eventually("the quota is in force", async || {
        let quota = quotas.get("small").await?;
        anyhow::Ok(quota.status.is_some_and(|status| status.used.is_some()))
    })
    .await
}

fn deleting_claim(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        space.create_claim("data").await?;
        space.create_running_pod("holder", "data").await?;
        delete_claim(&space, "data").await?;
        space
            .create_pod("next", "data", unsatisfiable_node_selector())
            .await?;
        Ok(Case::new(
            &["pod", "next", "-n", &space.name],
            &format!("kubectl delete pod holder -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn missing_claim(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        space.create_pod("user", "data", json!({})).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl get pvc -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn misspelled_claim(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        limit_claims(&space, 0).await?;
        space.create_pod("user", "dta", json!({})).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl get pvc -n {}", space.name),
        ))
    }
    .boxed_local()
}

/// The pod uses the claim, so it both waits for the claim and keeps it from being deleted. Its node
/// does not exist.
fn on_missing_node_with_deleting_claim(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        bound(&space, "data", json!({})).await?;
        space.create_pod("user", "data", on_missing_node()).await?;
        delete_claim(&space, "data").await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            "kubectl get node elsewhere",
        ))
    }
    .boxed_local()
}

fn failed(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        space.create_pod("user", "data", on_missing_node()).await?;
        let status = json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}});
        let (parameters, status) = (PatchParams::default(), Patch::Merge(status));
        let pods = &space.pods;
        pods.patch_status("user", &parameters, &status).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl describe pod user -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn invalid_template(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let changes = requesting_claim("kind: Pod\nspec: {}\n");
        space.create_pod("user", "data", changes).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl describe pod user -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn refused_by_quota(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        limit_claims(&space, 0).await?;
        let changes = requesting_claim(crate::pvc_provisioner::support::TEMPLATE);
        space.create_pod("user", "data", changes).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl describe resourcequota small -n {}", space.name),
        ))
    }
    .boxed_local()
}

/// The claim waits until the pod has a node, so its cause refers back to the pod.
fn unscheduled(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let classes = Api::<StorageClass>::all(space.cluster.client());
        let class = json!({
            "metadata": {"name": space.name}, "provisioner": "example.com/none", "volumeBindingMode": "WaitForFirstConsumer",
        });
        let class = serde_json::from_value(class)?;
        classes.create(&PostParams::default(), &class).await?;
        let claim =
            crate::support::claim("data", json!({"spec": {"storageClassName": space.name}}))?;
        space.claims.create(&PostParams::default(), &claim).await?;
        space.create_pod("user", "data", unsatisfiable_node_selector()).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl describe pod user -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn no_volume(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "user"},
            "spec": {"containers": [{"name": "main", "image": "main"}], "nodeSelector": {"nowhere": "true"}},
        }))?;
        space.pods.create(&PostParams::default(), &pod).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl describe pod user -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn foreign_finalizer(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        space.create_claim("data").await?;
        let changes = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        space.create_pod("user", "data", changes).await?;
        space.pods.delete("user", &DeleteParams::default()).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!(
                "kubectl get pod user -n {} -o yaml --show-managed-fields",
                space.name
            ),
        ))
    }
    .boxed_local()
}
