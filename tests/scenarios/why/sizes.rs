//! Claims whose volume does not have the size that they request yet. No resizer and no kubelet
//! runs, so their reports are written as the external-resizer and the kubelet write them.

use super::{
    objects::{bound, class},
    support::{Case, Fault, Seeded, Stage},
};
use crate::support::Space;
use anyhow::Result;
use futures::FutureExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden::why::Code;

/// All of them.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "resize is not begun",
        root: Code::ResizePending,
        seed: not_begun,
    },
    Fault {
        name: "resize waits for a pod",
        root: Code::ResizePending,
        seed: waits_for_a_pod,
    },
    Fault {
        name: "resize failed",
        root: Code::ResizeFailed,
        seed: failed,
    },
];

/// A bound claim of 1 GiB that requests 2 GiB, with this status.
async fn larger(space: &Space, status: Value) -> Result<()> {
    let expansion = json!({"allowVolumeExpansion": true});
    class(space, &space.name, expansion).await?;
    bound(space, "data", json!({})).await?;
    let request = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    space.patch_claim("data", request).await?;
    let status = Patch::Merge(json!({"status": status}));
    let parameters = PatchParams::default();
    space
        .claims
        .patch_status("data", &parameters, &status)
        .await?;
    Ok(())
}

fn not_begun(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        larger(&space, json!({})).await?;
        let command = format!("kubectl describe pvc data -n {}", space.name);
        Ok(Case::new(&["pvc/data", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn waits_for_a_pod(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let condition = json!({
            "type": "FileSystemResizePending", "status": "True",
            "message": "Waiting for user to (re-)start a pod to finish file system resize of volume on node.",
        });
        larger(&space, json!({"conditions": [condition]})).await?;
        Ok(Case::without_command(&["pvc", "data", "-n", &space.name]))
    }
    .boxed_local()
}

fn failed(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let condition = json!({
            "type": "ControllerResizeError", "status": "True",
            "message": "resize volume \"disk\" by resizer \"csi.example.com\" failed: rpc error: code = OutOfRange desc = too large",
        });
        let status = json!({
            "conditions": [condition], "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"},
        });
        larger(&space, status).await?;
        let command = format!("kubectl describe pvc data -n {}", space.name);
        Ok(Case::new(&["pvc", "data", "-n", &space.name], &command))
    }
    .boxed_local()
}
