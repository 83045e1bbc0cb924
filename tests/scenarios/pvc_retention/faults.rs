//! Faults between Volume Warden and the API server: test cases STS-* of the specification that need
//! fault injection and affect Volume Warden. Each scenario has its own namespace and its own Volume
//! Warden, which sends its requests through an interposer. No webhooks are served, so all writes
//! are those of the reconciler.

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
        Self::on_cluster(bare().await?, label).await
    }

    pub(super) async fn on_cluster(cluster: Shared, label: &str) -> Result<Self> {
        Ok(Self {
            sets: SetSpace::new(cluster.clone(), label).await?,
            interposer: interposer(&cluster).await?,
        })
    }

    /// A Volume Warden with the Lease identity `id`. A process with the same identity as an earlier
    /// process does not wait for the Lease of that process to expire.
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

    /// Number of patches and deletions of claims so far, including requests that a rule of the
    /// interposer did not forward.
    pub(super) fn claim_writes(&self) -> usize {
        self.claim_writes_of("")
    }

    /// As [`Self::claim_writes`], for claims whose name begins with `name`.
    fn claim_writes_of(&self, name: &str) -> usize {
        let path = format!("/persistentvolumeclaims/{name}");
        self.interposer.count("PATCH", &path) + self.interposer.count("DELETE", &path)
    }

    /// Creates a claim that no pod uses, with the marker of this set, as if its ordinal had been in
    /// range.
    async fn create_marked_claim(&self, name: &str, set: &str) -> Result<()> {
        let uid = self.sets.sets.get(set).await?.metadata.uid;
        let marked = claim(name, json!({"metadata": {"annotations": {MARK: uid}}}))?;
        let claims = &self.sets.space.claims;
        claims.create(&PostParams::default(), &marked).await?;
        Ok(())
    }

    /// Waits until a pod of [`pods_with_finalizer`] is being deleted, removes its finalizer, and
    /// waits until the pod is deleted.
    pub(super) async fn finish_pod_deletion(&self, pod: &str) -> Result<()> {
        self.is_terminating(pod).await?;
        self.remove_finalizer(pod).await?;
        self.sets.space.pod_is_gone(pod).await
    }

    /// Waits until the pod is being deleted. Its finalizer keeps it until
    /// [`Self::remove_finalizer`].
    async fn is_terminating(&self, pod: &str) -> Result<()> {
        let pods = &self.sets.space.pods;
        eventually(&format!("pod {pod} is Terminating"), async || {
            let found = pods.get(pod).await?;
            anyhow::Ok(found.metadata.deletion_timestamp.is_some())
        })
        .await
    }

    /// Removes the finalizer of a pod.
    async fn remove_finalizer(&self, pod: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let pods = &self.sets.space.pods;
        pods.patch(pod, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Creates the ConfigMap `other`, and returns an owner reference to it.
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

    /// Waits for an Event with this reason on this object whose message contains `text`.
    async fn has_event_with_text(&self, reason: &str, object: &str, text: &str) -> Result<()> {
        eventually(&format!("{object} has an Event {reason}"), async || {
            let events = self.sets.space.events_with(reason).await?;
            let found = events.iter().any(|event| {
                event.involved_object.name.as_deref() == Some(object)
                    && event.message.as_deref().unwrap_or("").contains(text)
            });
            ensure!(found, "{events:?}");
            Ok(())
        })
        .await
    }
}

async fn interposer(cluster: &Cluster) -> Result<Interposer> {
    Interposer::for_service_account(cluster, "volume-warden", "volume-warden").await
}

/// Changes to a set whose pods have a finalizer: a deleted pod stays Terminating until
/// [`FaultFixture::finish_pod_deletion`], so Volume Warden has time to process its scale-down.
pub(super) fn pods_with_finalizer() -> Value {
    json!({"spec": {"template": {"metadata": {"finalizers": ["example.com/hold"]}}}})
}

pub(super) fn claim_write(method: &str, name: &str) -> Rule {
    Rule::on(method).path_contains(format!("/persistentvolumeclaims/{name}"))
}
