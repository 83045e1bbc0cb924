//! Faults of volumes that stay Terminating, and of volumes that stay Released.

use super::{
    objects::{
        bound, create_claim, create_released_volume, create_volume, delete_claim, delete_volume,
        has_phase,
    },
    support::{Case, Fault, Injection, WhyFixture},
};
use crate::support::Space;
use anyhow::Result;
use futures::FutureExt;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden::why::Code;

/// The faults of volumes.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "volume bound",
        root: Code::Bound,
        inject: volume_bound,
    },
    Fault {
        name: "volume of a used claim",
        root: Code::InUse,
        inject: volume_of_a_used_claim,
    },
    Fault {
        name: "storage not deleted",
        root: Code::StorageNotDeleted,
        inject: storage_not_deleted,
    },
    Fault {
        name: "volume attached",
        root: Code::Attached,
        inject: attached,
    },
    Fault {
        name: "volume retained",
        root: Code::Retained,
        inject: retained,
    },
    Fault {
        name: "claim replaced",
        root: Code::ClaimReplaced,
        inject: claim_replaced,
    },
    Fault {
        name: "volume released and attached",
        root: Code::Attached,
        inject: released_and_attached,
    },
    Fault {
        name: "volume deleted under its claim",
        root: Code::VolumeDeleting,
        inject: deleted_under_its_claim,
    },
    Fault {
        name: "volume deleted under its claim with policy delete",
        root: Code::VolumeDeleting,
        inject: deleted_under_its_claim_with_policy_delete,
    },
    Fault {
        name: "policy is delete",
        root: Code::StorageNotDeleted,
        inject: policy_is_delete,
    },
];

fn with_finalizer(finalizer: &str) -> Value {
    json!({"metadata": {"finalizers": [finalizer]}})
}

fn volume_bound(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let volume = bound(&space, "data", json!({})).await?;
        delete_volume(&space, &volume).await?;
        let command = format!("kubectl get pv {volume} -o yaml");
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

fn volume_of_a_used_claim(_: Arc<WhyFixture>, space: Space) -> Injection {
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

fn storage_not_deleted(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let finalizer = "external-provisioner.volume.kubernetes.io/finalizer";
        let volume = create_volume(&space, "going", with_finalizer(finalizer)).await?;
        delete_volume(&space, &volume).await?;
        Ok(Case::new(
            &["pv", &volume],
            &format!("kubectl describe pv {volume}"),
        ))
    }
    .boxed_local()
}

/// Creates a VolumeAttachment with a finalizer that no controller removes.
async fn create_attachment(space: &Space, volume: &str) -> Result<()> {
    let attachments: Api<VolumeAttachment> = Api::all(space.cluster.client());
    let attachment = json!({"metadata": {"name": space.name, "finalizers": ["example.com/guard"]}, "spec": {
        "attacher": "csi.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": volume}}});
    let attachment = serde_json::from_value(attachment)?;
    attachments
        .create(&PostParams::default(), &attachment)
        .await?;
    Ok(())
}

/// The volume has the label of another installation, which releases it only once it is detached.
fn released_and_attached(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let labels = json!({crate::pv_releaser::support::LABEL: "another"});
        let volume =
            create_released_volume(&space, json!({"metadata": {"labels": labels}})).await?;
        create_attachment(&space, &volume).await?;
        let command = format!("kubectl describe volumeattachment {}", space.name);
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

fn deleted_under_its_claim(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let volume = bound(&space, "data", json!({})).await?;
        delete_volume(&space, &volume).await?;
        let command = format!("kubectl get pv {volume} -o yaml");
        Ok(Case::new(&["pvc", "data", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn deleted_under_its_claim_with_policy_delete(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let policy = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
        let volume = bound(&space, "data", policy).await?;
        delete_volume(&space, &volume).await?;
        let command = format!("kubectl patch pv {volume} --type=json");
        Ok(Case::new(&["pvc", "data", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn attached(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let volume = create_volume(
            &space,
            "going",
            with_finalizer("external-attacher/csi-example-com"),
        )
        .await?;
        create_attachment(&space, &volume).await?;
        delete_volume(&space, &volume).await?;
        let command = format!("kubectl describe volumeattachment {}", space.name);
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

fn retained(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let volume = create_released_volume(&space, json!({})).await?;
        let command = format!("kubectl patch pv {volume} --type=json");
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

fn claim_replaced(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let volume = create_released_volume(&space, json!({})).await?;
        create_claim(&space, "data", json!({})).await?;
        let command = format!("kubectl patch pv {volume} --type=json");
        Ok(Case::new(&["pv", &volume], &command))
    }
    .boxed_local()
}

/// The CSI driver of the volume is not installed, so its storage is not deleted.
fn policy_is_delete(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let driver = json!({"spec": {
            "persistentVolumeReclaimPolicy": "Delete", "hostPath": null,
            "csi": {"driver": "silent.example.com", "volumeHandle": "one"}}});
        let volume = create_released_volume(&space, driver).await?;
        has_phase(&space.volumes, &volume, "Released").await?;
        Ok(Case::new(
            &["pv", &volume],
            &format!("kubectl describe pv {volume}"),
        ))
    }
    .boxed_local()
}
