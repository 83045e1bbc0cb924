//! A namespace for each scenario.

use super::{claim, on_node, pod, shared::Shared};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{
    Event, Namespace, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use volume_warden_controlplane::eventually;

/// Creates a namespace, and waits for its service account: no pod can be created before.
pub async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    eventually("the namespace has a service account", async || {
        accounts.get("default").await.map(drop)
    })
    .await
}

/// A namespace for one test.
pub struct Space {
    pub cluster: Shared,
    pub name: String,
    pub claims: Api<PersistentVolumeClaim>,
    pub pods: Api<Pod>,
    pub volumes: Api<PersistentVolume>,
    pub events: Api<Event>,
}

impl Space {
    /// A new namespace whose name begins with `label`.
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{label}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let client = cluster.client();
        create_namespace(&client, &name).await?;
        Ok(Self {
            cluster,
            claims: Api::namespaced(client.clone(), &name),
            pods: Api::namespaced(client.clone(), &name),
            volumes: Api::all(client.clone()),
            events: Api::namespaced(client, &name),
            name,
        })
    }

    pub async fn create_claim(&self, name: &str) -> Result<()> {
        self.claims
            .create(&PostParams::default(), &claim(name, json!({}))?)
            .await?;
        Ok(())
    }

    pub async fn create_pod(&self, name: &str, claim: &str, changes: Value) -> Result<Pod> {
        Ok(self
            .pods
            .create(&PostParams::default(), &pod(name, claim, changes)?)
            .await?)
    }

    /// Creates a pod on a node, and returns the API server's response unchanged.
    pub async fn create_pod_on_node(&self, name: &str, claim: &str) -> Result<kube::Result<Pod>> {
        Ok(self
            .pods
            .create(&PostParams::default(), &pod(name, claim, on_node())?)
            .await)
    }

    /// Binds the pod to a node, as a scheduler does, by a POST to `path`.
    pub async fn bind(
        &self,
        path: &str,
        pod: &str,
        parameters: &PostParams,
    ) -> kube::Result<Value> {
        let url = format!("/api/v1/namespaces/{}/{path}", self.name);
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        });
        let create = if parameters.dry_run {
            format!("{url}?dryRun=All")
        } else {
            url
        };
        let request = http::Request::post(create).header("content-type", "application/json");
        let request = request
            .body(binding.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        self.cluster.client().request(request).await
    }

    /// Creates a pod that uses the claim, and waits until it runs.
    pub async fn create_running_pod(&self, name: &str, claim: &str) -> Result<()> {
        self.create_pod(name, claim, on_node()).await?;
        eventually("the pod runs", async || {
            let pod = self.pods.get(name).await?;
            anyhow::Ok(
                pod.status
                    .and_then(|status| status.phase)
                    .is_some_and(|phase| phase == "Running"),
            )
        })
        .await
    }

    pub async fn delete_claim(&self, name: &str) -> Result<()> {
        self.claims.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Deletes the pod without a grace period, so no kubelet has to confirm. Do not create a pod of
    /// the same name on a node afterwards: KWOK deletes each pod that it sees being deleted once
    /// more, by its name.
    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        self.pods
            .delete(name, &DeleteParams::default().grace_period(0))
            .await?;
        Ok(())
    }

    pub async fn patch_claim(&self, name: &str, patch: Value) -> Result<()> {
        self.claims
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    pub async fn patch_pod_status(&self, name: &str, status: Value) -> Result<()> {
        self.pods
            .patch_status(
                name,
                &PatchParams::default(),
                &Patch::Strategic(json!({"status": status})),
            )
            .await?;
        Ok(())
    }

    /// The claim's finalizers.
    pub async fn finalizers(&self, claim: &str) -> Result<Vec<String>> {
        Ok(self
            .claims
            .get(claim)
            .await?
            .metadata
            .finalizers
            .unwrap_or_default())
    }

    pub async fn claim_is_protected(&self, name: &str) -> Result<()> {
        eventually(&format!("claim {name} has its finalizer"), async || {
            let finalizers = self.finalizers(name).await?;
            ensure!(
                finalizers
                    .iter()
                    .any(|each| each == "kubernetes.io/pvc-protection"),
                "{finalizers:?}"
            );
            Ok(())
        })
        .await
    }

    pub async fn pod_is_gone(&self, name: &str) -> Result<()> {
        eventually(&format!("pod {name} is gone"), async || {
            anyhow::Ok(self.pods.get_opt(name).await?.is_none())
        })
        .await
    }

    /// Deletes the namespace, and waits until it is gone.
    pub async fn delete_namespace(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.cluster.client());
        namespaces
            .delete(&self.name, &DeleteParams::default())
            .await?;
        eventually("the namespace is gone", async || {
            ensure!(namespaces.get_opt(&self.name).await?.is_none());
            anyhow::Ok(())
        })
        .await
    }

    pub async fn claim_is_gone(&self, name: &str) -> Result<()> {
        eventually(&format!("claim {name} is gone"), async || {
            let found = self.claims.get_opt(name).await?;
            ensure!(found.is_none(), "{:?}", found.map(|claim| claim.metadata));
            Ok(())
        })
        .await
    }

    /// Checks that the claim is Terminating and still exists after Volume Warden has processed all
    /// earlier events: a claim that was created and deleted afterwards is gone.
    pub async fn claim_is_held(&self, name: &str) -> Result<()> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let canary = format!("canary-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.create_claim(&canary).await?;
        self.claim_is_protected(&canary).await?;
        self.delete_claim(&canary).await?;
        self.claim_is_gone(&canary).await?;
        let claim = self
            .claims
            .get_opt(name)
            .await?
            .with_context(|| format!("claim {name} should be held and is gone"))?;
        ensure!(
            claim.metadata.deletion_timestamp.is_some(),
            "claim {name} is not being deleted"
        );
        Ok(())
    }

    /// The Events with this reason.
    pub async fn events_with(&self, reason: &str) -> Result<Vec<Event>> {
        let fields = format!("reason={reason}");
        Ok(self
            .events
            .list(&ListParams::default().fields(&fields))
            .await?
            .items)
    }
}
