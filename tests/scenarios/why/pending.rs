//! Faults of claims that stay Pending.

use super::{
    objects::{class, classless, create_claim, create_volume, delete_volume},
    support::{Case, Fault, Injection, WhyFixture},
};
use crate::support::Space;
use anyhow::{Context, Result};
use futures::FutureExt;
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden::why::Code;

/// The faults of Pending claims.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "two default classes",
        root: Code::TwoDefaultClasses,
        inject: two_defaults,
    },
    Fault {
        name: "class missing",
        root: Code::ClassMissing,
        inject: class_missing,
    },
    Fault {
        name: "no matching volume",
        root: Code::NoMatchingVolume,
        inject: no_matching_volume,
    },
    Fault {
        name: "volume missing",
        root: Code::VolumeMissing,
        inject: volume_missing,
    },
    Fault {
        name: "volume deleting",
        root: Code::VolumeDeleting,
        inject: volume_deleting,
    },
    Fault {
        name: "volume reserved",
        root: Code::VolumeReserved,
        inject: volume_reserved,
    },
    Fault {
        name: "waits for a pod",
        root: Code::WaitsForPod,
        inject: waits_for_a_pod,
    },
    Fault {
        name: "provisioner silent",
        root: Code::ProvisionerSilent,
        inject: provisioner_silent,
    },
    Fault {
        name: "provisioner failed",
        root: Code::ProvisionerFailed,
        inject: provisioner_failed,
    },
    Fault {
        name: "earlier claim of the name failed",
        root: Code::ProvisionerSilent,
        inject: earlier_claim_failed,
    },
];

/// A case about the claim `data`.
fn data_claim_case(space: &Space, command: &str) -> Case {
    Case::new(&["pvc", "data", "-n", &space.name], command)
}

fn no_provisioner() -> Value {
    json!({"provisioner": "kubernetes.io/no-provisioner"})
}

/// The cluster already has a default StorageClass. The API server sets the newest one in a claim.
fn two_defaults(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let default = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        class(
            &space,
            &space.name,
            json!({"metadata": {"annotations": default}}),
        )
        .await?;
        classless(&space, "data", Some(&space.name)).await?;
        Ok(data_claim_case(
            &space,
            &format!("kubectl annotate storageclass {}", space.name),
        ))
    }
    .boxed_local()
}

fn class_missing(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        create_claim(&space, "data", json!({})).await?;
        Ok(data_claim_case(&space, "kubectl get storageclass"))
    }
    .boxed_local()
}

fn no_matching_volume(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        class(&space, &space.name, no_provisioner()).await?;
        create_volume(
            &space,
            "small",
            json!({"spec": {"capacity": {"storage": "1Mi"}}}),
        )
        .await?;
        create_claim(&space, "data", json!({})).await?;
        Ok(data_claim_case(&space, "kubectl get pv"))
    }
    .boxed_local()
}

fn volume_missing(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        create_claim(&space, "data", json!({"spec": {"volumeName": "nowhere"}})).await?;
        Ok(data_claim_case(&space, "kubectl get pv"))
    }
    .boxed_local()
}

fn volume_deleting(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        class(&space, &space.name, no_provisioner()).await?;
        let held = json!({"metadata": {"finalizers": ["example.com/guard"]}});
        let volume = create_volume(&space, "going", held).await?;
        delete_volume(&space, &volume).await?;
        create_claim(&space, "data", json!({})).await?;
        Ok(data_claim_case(
            &space,
            &format!("volume-warden why pv {volume}"),
        ))
    }
    .boxed_local()
}

fn volume_reserved(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        class(&space, &space.name, no_provisioner()).await?;
        let other = json!({"spec": {"claimRef": {"namespace": space.name, "name": "other"}}});
        let volume = create_volume(&space, "taken", other).await?;
        create_claim(&space, "data", json!({"spec": {"volumeName": volume}})).await?;
        Ok(data_claim_case(&space, &format!("kubectl get pv {volume}")))
    }
    .boxed_local()
}

fn waits_for_a_pod(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let later = json!({"volumeBindingMode": "WaitForFirstConsumer"});
        class(&space, &space.name, later).await?;
        create_claim(&space, "data", json!({})).await?;
        Ok(Case::without_command(&["pvc", "data", "-n", &space.name]))
    }
    .boxed_local()
}

fn provisioner_silent(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        class(&space, &space.name, json!({})).await?;
        create_claim(&space, "data", json!({})).await?;
        Ok(data_claim_case(&space, "kubectl describe pvc data"))
    }
    .boxed_local()
}

/// Publishes the Event of a provisioner whose storage is full, about the claim `data` with this
/// uid.
async fn publish_no_space_left(space: &Space, uid: &str) -> Result<()> {
    publish_provisioning_failed(space, uid, "no space left").await
}

/// Publishes an Event `ProvisioningFailed` about the claim `data` with this uid.
pub async fn publish_provisioning_failed(space: &Space, uid: &str, message: &str) -> Result<()> {
    let event = json!({
        "metadata": {"name": "data.1"}, "reason": "ProvisioningFailed", "type": "Warning", "message": message,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "PersistentVolumeClaim", "name": "data", "namespace": space.name, "uid": uid},
    });
    let event = serde_json::from_value(event)?;
    space.events.create(&PostParams::default(), &event).await?;
    Ok(())
}

/// The Event is about an earlier claim of the same name, which has another uid.
fn earlier_claim_failed(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        class(&space, &space.name, json!({})).await?;
        create_claim(&space, "data", json!({})).await?;
        publish_no_space_left(&space, "2a9c0f7e-0000-4000-8000-000000000000").await?;
        Ok(data_claim_case(&space, "kubectl describe pvc data"))
    }
    .boxed_local()
}

fn provisioner_failed(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        class(&space, &space.name, json!({})).await?;
        create_claim(&space, "data", json!({})).await?;
        let uid = space.claims.get("data").await?.uid().context("a uid")?;
        publish_no_space_left(&space, &uid).await?;
        Ok(data_claim_case(&space, "kubectl describe pvc data"))
    }
    .boxed_local()
}
