//! Volumes that do not go, and that are no client's.

use super::{
    objects::{a_claim, a_volume, bound, delete_claim, delete_volume, has_phase, released},
    support::{Case, Fault, Stage},
};
use crate::support::Space;
use anyhow::Result;
use futures::{FutureExt, future::LocalBoxFuture};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use volume_warden::why::Code;

type Seeded = LocalBoxFuture<'static, Result<Case>>;
use std::sync::Arc;

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
        let command = format!("kubectl delete pvc data -n {}", space.name);
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

fn attached(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let volume = a_volume(&space, "going", held("external-attacher/csi-example-com")).await?;
        let attachments: Api<VolumeAttachment> = Api::all(space.cluster.client());
        let attachment = json!({"metadata": {"name": space.name, "finalizers": ["example.com/guard"]}, "spec": {
            "attacher": "csi.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": volume}}});
        attachments.create(&PostParams::default(), &serde_json::from_value(attachment)?).await?;
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

/// Of a driver that no client runs.
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
