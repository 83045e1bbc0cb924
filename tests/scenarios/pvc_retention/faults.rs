//! Faults between Volume Warden and the API server: rows STS-* marked F that affect Volume Warden.
//! Each scenario has its own Volume Warden for its own namespace, behind an interposer. No
//! webhooks are served: all writes are the reconciler's.

mod live_reads;
mod priorities;
mod readings;

use super::support::{MARK, SetSpace};
use crate::support::{BINARY, bare, claim, shared::Shared};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::{Cluster, Interposer, Rule, Warden, WardenBuilder, eventually};

/// A namespace and the interposer between its Volume Warden and the API server.
pub(super) struct FaultFixture {
    pub(super) sets: SetSpace,
    pub(super) interposer: Interposer,
}

impl FaultFixture {
    pub(super) async fn new(label: &str) -> Result<Self> {
        Self::on(bare().await?, label).await
    }

    pub(super) async fn on(cluster: Shared, label: &str) -> Result<Self> {
        Ok(Self {
            sets: SetSpace::new(cluster.clone(), label).await?,
            interposer: interposer(&cluster).await?,
        })
    }

    /// Uses the Lease identity `id`: the same identity need not wait for a predecessor's Lease to
    /// expire.
    fn builder(&self, id: &str) -> WardenBuilder<'_> {
        let namespace = &self.sets.space.name;
        Warden::builder(&self.sets.space.cluster, BINARY)
            .name(format!("{namespace}-{id}"))
            .kubeconfig(self.interposer.kubeconfig())
            .arg(format!("--namespace={namespace}"))
            .arg(format!("--leader-elect-resource-name={namespace}"))
            .arg(format!("--leader-elect-identity={id}"))
            .arg("--components=pvc-retention")
    }

    pub(super) async fn start(&self) -> Result<Warden> {
        self.builder("warden").start().await
    }

    /// Patches and deletions of claims so far, also those that never arrived.
    pub(super) fn claim_writes(&self) -> usize {
        self.claim_writes_of("")
    }

    /// Patches and deletions of claims whose name begins with `name`.
    fn claim_writes_of(&self, name: &str) -> usize {
        let path = format!("/persistentvolumeclaims/{name}");
        self.interposer.count("PATCH", &path) + self.interposer.count("DELETE", &path)
    }

    /// Creates a claim without a pod, with the mark of a set whose range once had its ordinal.
    async fn create_marked_claim(&self, name: &str, set: &str) -> Result<()> {
        let uid = self.sets.sets.get(set).await?.metadata.uid;
        let marked = claim(name, json!({"metadata": {"annotations": {MARK: uid}}}))?;
        let claims = &self.sets.space.claims;
        claims.create(&PostParams::default(), &marked).await?;
        Ok(())
    }

    /// Releases a pod of [`held_pods`] once it is being deleted.
    pub(super) async fn free(&self, pod: &str) -> Result<()> {
        self.is_terminating(pod).await?;
        self.release(pod).await?;
        self.sets.space.pod_is_gone(pod).await
    }

    /// Waits until the pod is being deleted; its finalizer keeps it.
    async fn is_terminating(&self, pod: &str) -> Result<()> {
        let pods = &self.sets.space.pods;
        eventually(&format!("pod {pod} is Terminating"), async || {
            let found = pods.get(pod).await?;
            anyhow::Ok(found.metadata.deletion_timestamp.is_some())
        })
        .await
    }

    /// Removes the finalizer of a pod.
    async fn release(&self, pod: &str) -> Result<()> {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let pods = &self.sets.space.pods;
        pods.patch(pod, &PatchParams::default(), &free).await?;
        Ok(())
    }

    /// A reference to an existing object that is not a set or pod.
    pub(super) async fn foreign_owner(&self, controller: bool) -> Result<Value> {
        let maps =
            Api::<ConfigMap>::namespaced(self.sets.space.cluster.client(), &self.sets.space.name);
        let map = serde_json::from_value(json!({"metadata": {"name": "other"}}))?;
        let uid = maps
            .create(&PostParams::default(), &map)
            .await?
            .metadata
            .uid;
        Ok(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": uid, "controller": controller,
        }))
    }

    /// Waits for an event with this reason and words that names the object.
    async fn event_says(&self, reason: &str, object: &str, words: &str) -> Result<()> {
        eventually(&format!("an event {reason} for {object}"), async || {
            let events = self.sets.space.events_with(reason).await?;
            let fits = events.iter().any(|event| {
                event.involved_object.name.as_deref() == Some(object)
                    && event.message.as_deref().unwrap_or("").contains(words)
            });
            ensure!(fits, "{events:?}");
            Ok(())
        })
        .await
    }
}

async fn interposer(cluster: &Cluster) -> Result<Interposer> {
    Interposer::for_service_account(cluster, "volume-warden", "volume-warden").await
}

/// Pods that stay Terminating until [`FaultFixture::free`], so that handling a condemned pod does not
/// race with its deletion.
pub(super) fn held_pods() -> Value {
    json!({"spec": {"template": {"metadata": {"finalizers": ["example.com/hold"]}}}})
}

pub(super) fn claim_write(method: &str, name: &str) -> Rule {
    Rule::on(method).path_contains(format!("/persistentvolumeclaims/{name}"))
}
