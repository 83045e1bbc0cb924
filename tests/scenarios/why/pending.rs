//! Claims that no volume is bound to.

use super::{
    objects::{a_claim, a_volume, class, classless, delete_volume},
    support::{Case, Fault, Seeded, Stage},
};
use crate::support::Space;
use anyhow::{Context, Result};
use futures::FutureExt;
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden::why::Code;

/// All of them.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "two default classes",
        root: Code::TwoDefaultClasses,
        seed: two_defaults,
    },
    Fault {
        name: "class missing",
        root: Code::ClassMissing,
        seed: class_missing,
    },
    Fault {
        name: "no matching volume",
        root: Code::NoMatchingVolume,
        seed: no_matching_volume,
    },
    Fault {
        name: "volume missing",
        root: Code::VolumeMissing,
        seed: volume_missing,
    },
    Fault {
        name: "volume deleting",
        root: Code::VolumeDeleting,
        seed: volume_deleting,
    },
    Fault {
        name: "volume reserved",
        root: Code::VolumeReserved,
        seed: volume_reserved,
    },
    Fault {
        name: "waits for a pod",
        root: Code::WaitsForPod,
        seed: waits_for_a_pod,
    },
    Fault {
        name: "provisioner silent",
        root: Code::ProvisionerSilent,
        seed: provisioner_silent,
    },
    Fault {
        name: "provisioner failed",
        root: Code::ProvisionerFailed,
        seed: provisioner_failed,
    },
    Fault {
        name: "earlier claim of the name failed",
        root: Code::ProvisionerSilent,
        seed: earlier_claim_failed,
    },
];

/// The claim `data`.
fn asked(space: &Space, command: &str) -> Case {
    Case::new(&["pvc", "data", "-n", &space.name], command)
}

fn by_hand() -> Value {
    json!({"provisioner": "kubernetes.io/no-provisioner"})
}

/// The cluster has one, and the new one is taken.
fn two_defaults(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let default = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        class(
            &space,
            &space.name,
            json!({"metadata": {"annotations": default}}),
        )
        .await?;
        classless(&space, "data", Some(&space.name)).await?;
        Ok(asked(
            &space,
            &format!("kubectl annotate storageclass {}", space.name),
        ))
    }
    .boxed_local()
}

fn class_missing(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        a_claim(&space, "data", json!({})).await?;
        Ok(asked(&space, "kubectl get storageclass"))
    }
    .boxed_local()
}

fn no_matching_volume(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        class(&space, &space.name, by_hand()).await?;
        a_volume(
            &space,
            "small",
            json!({"spec": {"capacity": {"storage": "1Mi"}}}),
        )
        .await?;
        a_claim(&space, "data", json!({})).await?;
        Ok(asked(&space, "kubectl get pv"))
    }
    .boxed_local()
}

fn volume_missing(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        a_claim(&space, "data", json!({"spec": {"volumeName": "nowhere"}})).await?;
        Ok(asked(&space, "kubectl get pv"))
    }
    .boxed_local()
}

fn volume_deleting(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        class(&space, &space.name, by_hand()).await?;
        let held = json!({"metadata": {"finalizers": ["example.com/guard"]}});
        let volume = a_volume(&space, "going", held).await?;
        delete_volume(&space, &volume).await?;
        a_claim(&space, "data", json!({})).await?;
        Ok(asked(&space, &format!("volume-warden why pv {volume}")))
    }
    .boxed_local()
}

fn volume_reserved(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        class(&space, &space.name, by_hand()).await?;
        let other = json!({"spec": {"claimRef": {"namespace": space.name, "name": "other"}}});
        let volume = a_volume(&space, "taken", other).await?;
        a_claim(&space, "data", json!({"spec": {"volumeName": volume}})).await?;
        Ok(asked(&space, &format!("kubectl get pv {volume}")))
    }
    .boxed_local()
}

fn waits_for_a_pod(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let later = json!({"volumeBindingMode": "WaitForFirstConsumer"});
        class(&space, &space.name, later).await?;
        a_claim(&space, "data", json!({})).await?;
        Ok(Case::without_command(&["pvc", "data", "-n", &space.name]))
    }
    .boxed_local()
}

fn provisioner_silent(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        class(&space, &space.name, json!({})).await?;
        a_claim(&space, "data", json!({})).await?;
        Ok(asked(&space, "kubectl describe pvc data"))
    }
    .boxed_local()
}

/// What an external-provisioner reports about the claim `data` with this uid.
async fn failed_to_provision(space: &Space, uid: &str) -> Result<()> {
    failed_with(space, uid, "no space left").await
}

/// An Event says with these words that the claim `data` was not provisioned.
pub async fn failed_with(space: &Space, uid: &str, message: &str) -> Result<()> {
    let event = json!({
        "metadata": {"name": "data.1"}, "reason": "ProvisioningFailed", "type": "Warning", "message": message,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "PersistentVolumeClaim", "name": "data", "namespace": space.name, "uid": uid},
    });
    let event = serde_json::from_value(event)?;
    space.events.create(&PostParams::default(), &event).await?;
    Ok(())
}

/// The Event outlives the claim that it is about.
fn earlier_claim_failed(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        class(&space, &space.name, json!({})).await?;
        a_claim(&space, "data", json!({})).await?;
        failed_to_provision(&space, "2a9c0f7e-0000-4000-8000-000000000000").await?;
        Ok(asked(&space, "kubectl describe pvc data"))
    }
    .boxed_local()
}

fn provisioner_failed(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        class(&space, &space.name, json!({})).await?;
        a_claim(&space, "data", json!({})).await?;
        let uid = space.claims.get("data").await?.uid().context("a uid")?;
        failed_to_provision(&space, &uid).await?;
        Ok(asked(&space, "kubectl describe pvc data"))
    }
    .boxed_local()
}
