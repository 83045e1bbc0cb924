//! The objects of a large cluster.

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;
use volume_warden_apiserver_model::{ApiServer, User};
use volume_warden_controlplane::eventually_within;

const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// The time limit for the work of the program.
const LIMIT: Duration = Duration::from_secs(600);

/// Claims with a pod each. The numbers in their names are not zero-padded, like those of a
/// StatefulSet named `workspace`, so all names have the same prefix.
#[derive(Clone, Copy)]
pub struct Load {
    pub objects: usize,
    pub namespaces: usize,
    /// The size of the command of each pod's container, in bytes.
    pub bytes: usize,
}

impl Load {
    /// Creates all objects. The first `without` claims have no finalizer.
    pub async fn fill(&self, server: &ApiServer, without: usize) -> Result<()> {
        for name in ["volume-warden", "kube-system"] {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            send(server, Method::POST, "/api/v1/namespaces", &body).await?;
        }
        for number in 0..self.namespaces {
            let name = format!("team-{number}");
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            send(server, Method::POST, "/api/v1/namespaces", &body).await?;
        }
        for number in 0..self.objects {
            let path =
                |plural: &str| format!("/api/v1/namespaces/{}/{plural}", self.namespace(number));
            let claim = claim(number, number >= without);
            send(
                server,
                Method::POST,
                &path("persistentvolumeclaims"),
                &claim,
            )
            .await?;
            let mut pod = pod(number);
            pod["spec"]["containers"][0]["command"] = json!(["x".repeat(self.bytes)]);
            send(server, Method::POST, &path("pods"), &pod).await?;
        }
        server.compact();
        Ok(())
    }

    fn namespace(&self, number: usize) -> String {
        format!("team-{}", number % self.namespaces)
    }

    /// Deletes the first half of the pods, then their claims.
    pub async fn delete_half(&self, server: &ApiServer) -> Result<()> {
        for plural in ["pods", "persistentvolumeclaims"] {
            for number in 0..self.objects / 2 {
                let namespace = self.namespace(number);
                let path = format!("/api/v1/namespaces/{namespace}/{plural}/workspace-{number}");
                send(
                    server,
                    Method::DELETE,
                    &path,
                    &json!({"gracePeriodSeconds": 0}),
                )
                .await?;
                // Yields, because the program and its clients share the two cores of this runtime.
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Waits until the claims of [`Self::delete_half`] are deleted.
    pub async fn half_is_gone(&self, server: &ApiServer) -> Result<()> {
        eventually_within(LIMIT, "half of the claims are deleted", async || {
            let left = server.list("persistentvolumeclaims", None).len();
            ensure!(left == self.objects - self.objects / 2, "{left} remain");
            Ok(())
        })
        .await
    }

    /// Waits until each claim has its finalizer.
    pub async fn protected(&self, server: &ApiServer) -> Result<()> {
        eventually_within(LIMIT, "all claims are protected", async || {
            let claims = server.list("persistentvolumeclaims", None);
            let bare = |claim: &&std::sync::Arc<Value>| !claim["metadata"]["finalizers"].is_array();
            let left = claims.iter().filter(bare).count();
            ensure!(left == 0, "{left} are unprotected");
            Ok(())
        })
        .await
    }
}

async fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> Result<()> {
    let administrator = User {
        name: "admin".to_owned(),
        groups: vec!["system:masters".to_owned()],
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    let request = request.body(Bytes::from(body.to_string()))?;
    let response = server.handle(&administrator, request).await;
    let status = response.status();
    if !status.is_success() {
        let body = response.into_body().collect().await?.to_bytes();
        anyhow::bail!("{path}: {status} {}", String::from_utf8_lossy(&body));
    }
    Ok(())
}

/// The `managedFields` that an API server records about the writers of an object.
fn written(manager: &str, fields: &Value) -> Value {
    json!([{
        "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "time": "2026-01-01T00:00:00Z", "fieldsV1": fields,
    }])
}

fn claim(number: usize, protected: bool) -> Value {
    let finalizers = if protected {
        json!([FINALIZER])
    } else {
        Value::Null
    };
    let fields = json!({"f:spec": {"f:accessModes": {}, "f:resources": {"f:requests": {".": {}, "f:storage": {}}}, "f:volumeMode": {}}});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": format!("workspace-{number}"), "finalizers": finalizers,
            "labels": {"app.kubernetes.io/name": "workspace"},
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"},
            "managedFields": written("kube-controller-manager", &fields),
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}, "storageClassName": "standard",
            "volumeMode": "Filesystem", "volumeName": format!("pvc-{number:08}-5c0f-4a55-9a38-6a5c1f2b7d11"),
        },
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}},
    })
}

fn pod(number: usize) -> Value {
    let name = format!("workspace-{number}");
    let fields = json!({"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}}}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "labels": {"app.kubernetes.io/name": "workspace", "app.kubernetes.io/instance": name},
            "managedFields": written("kubelet", &fields),
        },
        "spec": {
            "nodeName": format!("node-{}", number % 500), "serviceAccountName": "default", "schedulerName": "default-scheduler",
            "containers": [{
                "name": "main", "image": "registry.example.com/team/workspace:1.2.3",
                "env": [{"name": "HOME", "value": "/home/user"}], "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
                "volumeMounts": [{"name": "home", "mountPath": "/home/user"}],
            }],
            "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": name}}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "main", "image": "workspace", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}],
        },
    })
}
