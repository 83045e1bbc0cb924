//! Pods that do not run, or do not go.

use super::{
    objects::{bound, delete_claim},
    support::{Case, Fault, Seeded, Stage},
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

/// All of them.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "pod with a deleting claim",
        root: Code::InUse,
        seed: deleting,
    },
    Fault {
        name: "pod with a missing claim",
        root: Code::ClaimMissing,
        seed: missing,
    },
    Fault {
        name: "pod with an invalid template",
        root: Code::InvalidTemplate,
        seed: invalid,
    },
    Fault {
        name: "pod whose claim a quota refuses",
        root: Code::QuotaExhausted,
        seed: refused,
    },
    Fault {
        name: "pod with a claim that no client makes",
        root: Code::ClaimMissing,
        seed: misspelt,
    },
    Fault {
        name: "pod on a missing node whose own claim is being deleted",
        root: Code::NodeLost,
        seed: given,
    },
    Fault {
        name: "pod that failed",
        root: Code::NoVolumeProblem,
        seed: failed,
    },
    Fault {
        name: "pod without a node for its claim",
        root: Code::PodUnscheduled,
        seed: unscheduled,
    },
    Fault {
        name: "pod without a node and without a claim",
        root: Code::NoVolumeProblem,
        seed: no_volume,
    },
    Fault {
        name: "pod with a foreign finalizer",
        root: Code::ForeignFinalizer,
        seed: finalizer,
    },
];

/// What no node has.
fn nowhere() -> Value {
    json!({"spec": {"nodeSelector": {"nowhere": "true"}}})
}

/// A node without a kubelet.
fn elsewhere() -> Value {
    json!({"spec": {"nodeName": "elsewhere"}})
}

/// A claim that asks to be made, by this template.
fn asking(template: &str) -> Value {
    json!({"metadata": {"annotations": {
        "dynamic-pvc-provisioner.kubernetes.io/data.enabled": "true",
        "dynamic-pvc-provisioner.kubernetes.io/data.pvc": template,
    }}})
}

/// No more claims than these.
pub async fn allow_claims(space: &Space, count: u32) -> Result<()> {
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

fn deleting(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        space.create_claim("data").await?;
        space.create_running_pod("holder", "data").await?;
        delete_claim(&space, "data").await?;
        space.create_pod("next", "data", nowhere()).await?;
        Ok(Case::new(
            &["pod", "next", "-n", &space.name],
            &format!("kubectl delete pod holder -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn missing(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        space.create_pod("user", "data", json!({})).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl get pvc -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn misspelt(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        allow_claims(&space, 0).await?;
        space.create_pod("user", "dta", json!({})).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl get pvc -n {}", space.name),
        ))
    }
    .boxed_local()
}

/// It keeps the claim itself, and gets it.
fn given(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        bound(&space, "data", json!({})).await?;
        space.create_pod("user", "data", elsewhere()).await?;
        delete_claim(&space, "data").await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            "kubectl get node elsewhere",
        ))
    }
    .boxed_local()
}

fn failed(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        space.create_pod("user", "data", elsewhere()).await?;
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

fn invalid(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let changes = asking("kind: Pod\nspec: {}\n");
        space.create_pod("user", "data", changes).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl describe pod user -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn refused(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        allow_claims(&space, 0).await?;
        let changes = asking(crate::pvc_provisioner::support::TEMPLATE);
        space.create_pod("user", "data", changes).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl describe resourcequota small -n {}", space.name),
        ))
    }
    .boxed_local()
}

/// The claim waits for the pod's node, so it leads back to the pod.
fn unscheduled(_: Arc<Stage>, space: Space) -> Seeded {
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
        space.create_pod("user", "data", nowhere()).await?;
        Ok(Case::new(
            &["pod", "user", "-n", &space.name],
            &format!("kubectl describe pod user -n {}", space.name),
        ))
    }
    .boxed_local()
}

fn no_volume(_: Arc<Stage>, space: Space) -> Seeded {
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

fn finalizer(_: Arc<Stage>, space: Space) -> Seeded {
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
