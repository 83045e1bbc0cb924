//! Faults of claims whose volume does not have the requested size yet. No external-resizer and no
//! kubelet runs, so the test writes the status that they would write.

use super::{
    objects::{bound, class},
    support::{Case, Fault, Injection, WhyFixture},
};
use crate::support::Space;
use anyhow::Result;
use futures::FutureExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden::why::Code;

/// The faults of expansions.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "resize is not begun",
        root: Code::ResizePending,
        inject: not_begun,
    },
    Fault {
        name: "resize waits for a pod",
        root: Code::ResizePending,
        inject: waits_for_a_pod,
    },
    Fault {
        name: "resize failed",
        root: Code::ResizeFailed,
        inject: failed,
    },
];

/// Creates a bound claim of 1 GiB, changes its request to 2 GiB, and writes this status.
async fn request_expansion(space: &Space, status: Value) -> Result<()> {
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

fn not_begun(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        request_expansion(&space, json!({})).await?;
        let command = format!("kubectl describe pvc data -n {}", space.name);
        Ok(Case::new(&["pvc/data", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn waits_for_a_pod(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let condition = json!({
            "type": "FileSystemResizePending", "status": "True",
            "message": "Waiting for user to (re-)start a pod to finish file system resize of volume on node.",
        });
        request_expansion(&space, json!({"conditions": [condition]})).await?;
        Ok(Case::without_command(&["pvc", "data", "-n", &space.name]))
    }
    .boxed_local()
}

fn failed(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let condition = json!({
            "type": "ControllerResizeError", "status": "True",
            "message": "resize volume \"disk\" by resizer \"csi.example.com\" failed: rpc error: code = OutOfRange desc = too large",
        });
        let status = json!({
            "conditions": [condition], "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"},
        });
        request_expansion(&space, status).await?;
        let command = format!("kubectl describe pvc data -n {}", space.name);
        Ok(Case::new(&["pvc", "data", "-n", &space.name], &command))
    }
    .boxed_local()
}
