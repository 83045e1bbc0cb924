//! Volumes that are not deleted, and volumes that no claim has.

use super::{
    objects::{a_claim, a_volume, bound, delete_claim, delete_volume, has_phase, released},
    support::{Case, Fault, Seeded, Stage},
};
use crate::support::Space;
use anyhow::Result;
use futures::FutureExt;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden::why::Code;

/// All of them.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "volume bound",
        root: Code::Bound,
        seed: volume_bound,
    },
    Fault {
        name: "volume of a used claim",
        root: Code::InUse,
        seed: volume_of_a_used_claim,
    },
    Fault {
        name: "storage not deleted",
        root: Code::StorageNotDeleted,
        seed: storage_not_deleted,
    },
    Fault {
        name: "volume attached",
        root: Code::Attached,
        seed: attached,
    },
    Fault {
        name: "volume retained",
        root: Code::Retained,
        seed: retained,
    },
    Fault {
        name: "claim replaced",
        root: Code::ClaimReplaced,
        seed: replaced,
    },
    Fault {
        name: "volume released and attached",
        root: Code::Attached,
        seed: released_and_attached,
    },
    Fault {
        name: "volume deleted under its claim",
        root: Code::VolumeDeleting,
        seed: deleted_under_its_claim,
    },
    Fault {
        name: "volume deleted under its claim with policy delete",
        root: Code::VolumeDeleting,
        seed: about_to_be_lost,
    },
    Fault {
        name: "policy is delete",
        root: Code::StorageNotDeleted,
        seed: policy_is_delete,
    },
];

fn held(finalizer: &str) -> Value {
    json!({"metadata": {"finalizers": [finalizer]}})
}

fn volume_bound(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let volume = bound(&space, "data", json!({})).await?;
        delete_volume(&space, &volume).await?;
        let command = format!("kubectl get pv {volume} -o yaml");
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

fn volume_of_a_used_claim(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let volume = bound(&space, "data", json!({})).await?;
        space.create_running_pod("user", "data").await?;
        delete_claim(&space, "data").await?;
        delete_volume(&space, &volume).await?;
        let command = format!("kubectl delete pod user -n {}", space.name);
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

fn storage_not_deleted(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let finalizer = "external-provisioner.volume.kubernetes.io/finalizer";
        let volume = a_volume(&space, "going", held(finalizer)).await?;
        delete_volume(&space, &volume).await?;
        Ok(Case::new(
            &["pv", &volume],
            &format!("kubectl describe pv {volume}"),
        ))
    }
    .boxed_local()
}

/// A VolumeAttachment that no controller deletes.
async fn attach(space: &Space, volume: &str) -> Result<()> {
    let attachments: Api<VolumeAttachment> = Api::all(space.cluster.client());
    let attachment = json!({"metadata": {"name": space.name, "finalizers": ["example.com/guard"]}, "spec": {
        "attacher": "csi.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": volume}}});
    let attachment = serde_json::from_value(attachment)?;
    attachments
        .create(&PostParams::default(), &attachment)
        .await?;
    Ok(())
}

/// Of another installation, which waits for the detachment.
fn released_and_attached(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let labels = json!({crate::pv_releaser::support::LABEL: "another"});
        let volume = released(&space, json!({"metadata": {"labels": labels}})).await?;
        attach(&space, &volume).await?;
        let command = format!("kubectl describe volumeattachment {}", space.name);
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

fn deleted_under_its_claim(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let volume = bound(&space, "data", json!({})).await?;
        delete_volume(&space, &volume).await?;
        let command = format!("kubectl get pv {volume} -o yaml");
        Ok(Case::new(&["pvc", "data", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn about_to_be_lost(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let policy = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
        let volume = bound(&space, "data", policy).await?;
        delete_volume(&space, &volume).await?;
        let command = format!("kubectl patch pv {volume} --type=json");
        Ok(Case::new(&["pvc", "data", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn attached(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let volume = a_volume(&space, "going", held("external-attacher/csi-example-com")).await?;
        attach(&space, &volume).await?;
        delete_volume(&space, &volume).await?;
        let command = format!("kubectl describe volumeattachment {}", space.name);
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

fn retained(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let volume = released(&space, json!({})).await?;
        let command = format!("kubectl patch pv {volume} --type=json");
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

fn replaced(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let volume = released(&space, json!({})).await?;
        a_claim(&space, "data", json!({})).await?;
        let command = format!("kubectl patch pv {volume} --type=json");
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

/// Of a driver that is not installed.
fn policy_is_delete(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let driver = json!({"spec": {
            "persistentVolumeReclaimPolicy": "Delete", "hostPath": null,
            "csi": {"driver": "silent.example.com", "volumeHandle": "one"}}});
        let volume = released(&space, driver).await?;
        has_phase(&space.volumes, &volume, "Released").await?;
        Ok(Case::new(
            &["pv", &volume],
            &format!("kubectl describe pv {volume}"),
        ))
    }
    .boxed_local()
}
