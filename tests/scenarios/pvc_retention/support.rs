//! StatefulSets for the scenarios, and assertions about their claims.

pub use crate::support::sets::*;
use crate::support::{BINARY, Space, shared::Shared};
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::{Warden, eventually};

/// The mark that Volume Warden puts on a claim whose ordinal is in range while `whenScaled` is
/// Delete.
pub const MARK: &str = "volume-warden.dev/scaled-with";

/// How often the webhook, by the log of Volume Warden, could not read a set of the namespace in
/// time. Then the claim gets no owner, or the one that the watch shows, or is refused.
pub fn unread(log: &str, namespace: &str) -> usize {
    let words = "cannot read the StatefulSet";
    let place = format!("{namespace}/");
    let matches = |line: &&str| line.contains(words) && line.contains(&place);
    log.lines().filter(matches).count()
}

/// Changes to a set of [`set`] for claims with ambiguous names: the name of the template, the
/// start ordinal, and `label: "yes"` as the only label of the pods.
pub fn ambiguous(template: &str, start: u32, label: &str) -> Value {
    let claim = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}});
    let mounts = json!([{"name": template, "mountPath": "/data"}]);
    let labels = json!({"app": null, label: "yes"});
    json!({"spec": {
        "ordinals": {"start": start},
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "main", "volumeMounts": mounts}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": template}, "spec": claim}],
    }})
}

/// A namespace of one test, with its sets.
pub struct SetSpace {
    pub space: Space,
    pub sets: Api<StatefulSet>,
}

impl SetSpace {
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let space = Space::new(cluster.clone(), label).await?;
        let sets = Api::namespaced(cluster.client(), &space.name);
        Ok(Self { space, sets })
    }

    /// Creates the set of [`set`] and waits until all its pods run.
    pub async fn create(&self, name: &str, replicas: i32, policy: Policy) -> Result<StatefulSet> {
        self.create_with(name, replicas, policy, json!({})).await
    }

    pub async fn create_with(
        &self,
        name: &str,
        replicas: i32,
        policy: Policy,
        changes: Value,
    ) -> Result<StatefulSet> {
        let wanted = set(name, replicas, policy, changes)?;
        let created = self.sets.create(&PostParams::default(), &wanted).await?;
        self.has_ready(name, replicas).await?;
        Ok(created)
    }

    pub async fn patch(&self, name: &str, patch: Value) -> Result<()> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.sets.patch(name, &parameters, &patch).await?;
        Ok(())
    }

    pub async fn scale(&self, name: &str, replicas: i32) -> Result<()> {
        let spec = json!({"replicas": replicas});
        self.patch(name, json!({"spec": spec})).await
    }

    pub async fn set_policy(&self, name: &str, policy: Policy) -> Result<()> {
        let policy = json!({"whenDeleted": policy.0, "whenScaled": policy.1});
        let spec = json!({"persistentVolumeClaimRetentionPolicy": policy});
        self.patch(name, json!({"spec": spec})).await
    }

    pub async fn delete(&self, name: &str, parameters: &DeleteParams) -> Result<()> {
        self.sets.delete(name, parameters).await?;
        Ok(())
    }

    /// Waits until so many pods are ready by the set's status.
    pub async fn has_ready(&self, name: &str, replicas: i32) -> Result<()> {
        let what = format!("set {name} has {replicas} ready pods");
        eventually(&what, async || {
            let set = self.sets.get(name).await?;
            let status = set.status.unwrap_or_default();
            let seen = status.observed_generation == set.metadata.generation;
            ensure!(seen, "not seen yet");
            let ready = status.ready_replicas.unwrap_or_default();
            ensure!(
                (status.replicas, ready) == (replicas, replicas),
                "{status:?}"
            );
            Ok(())
        })
        .await
    }

    pub async fn owners(&self, claim: &str) -> Result<Vec<OwnerReference>> {
        Ok(self.claim(claim).await?.owner_references().to_vec())
    }

    pub async fn claim(&self, claim: &str) -> Result<PersistentVolumeClaim> {
        let found = self.space.claims.get_opt(claim).await?;
        found.with_context(|| format!("claim {claim} is gone"))
    }

    /// Waits until the claim has exactly these owners, as `StatefulSet/web`, each with
    /// `controller`, and the StatefulSet with `blockOwnerDeletion`.
    pub async fn claim_is_owned_by(&self, claim: &str, owners: &[&str]) -> Result<()> {
        let what = format!("claim {claim} is owned by {owners:?}");
        eventually(&what, async || {
            let found = self.owners(claim).await?;
            let name = |owner: &OwnerReference| format!("{}/{}", owner.kind, owner.name);
            let names: Vec<_> = found.iter().map(name).collect();
            ensure!(names == owners, "{names:?}");
            ensure!(found.iter().all(complete), "{found:?}");
            Ok(())
        })
        .await
    }

    /// Waits until the claim's mark is this uid, or absent.
    pub async fn claim_is_marked(&self, claim: &str, mark: Option<&str>) -> Result<()> {
        let what = format!("claim {claim} has the mark {mark:?}");
        eventually(&what, async || {
            let claim = self.claim(claim).await?;
            let found = claim.annotations().get(MARK).map(String::as_str);
            ensure!(found == mark, "{found:?}");
            Ok(())
        })
        .await
    }

    pub async fn uid_of_claim(&self, claim: &str) -> Result<String> {
        self.claim(claim).await?.metadata.uid.context("a uid")
    }

    /// Waits until Volume Warden has processed all earlier changes: the reconciler, which
    /// processes a namespace's sets in the order of their events, sets the owner of a new set's
    /// claim.
    pub async fn settled(&self) -> Result<()> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("canary{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let claim = format!("data-{name}-7");
        self.space.create_claim(&claim).await?;
        let canary = set(&name, 0, DELETE_RETAIN, json!({}))?;
        self.sets.create(&PostParams::default(), &canary).await?;
        let owner = format!("StatefulSet/{name}");
        self.claim_is_owned_by(&claim, &[&owner]).await?;
        self.delete(&name, &DeleteParams::background()).await?;
        self.space.claim_is_gone(&claim).await
    }

    /// Runs `done`, and waits until new pods of these names run.
    pub async fn replaced(
        &self,
        names: &[&str],
        done: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let pods = &self.space.pods;
        let before = try_join_all(names.iter().map(|name| pods.get(name))).await?;
        done.await?;
        for before in before {
            let name = before.name_any();
            eventually(&format!("another {name} runs"), async || {
                let now = pods.get(&name).await?;
                let other = now.uid() != before.uid();
                let phase = now.status.and_then(|status| status.phase);
                anyhow::Ok(other && phase.as_deref() == Some("Running"))
            })
            .await?;
        }
        Ok(())
    }

    /// Waits for exactly one such event on the set that names the claim.
    pub async fn has_event(&self, reason: &str, set: &str, claim: &str) -> Result<()> {
        eventually(
            &format!("{set} has event {reason} for {claim}"),
            async || {
                let mut events = self.space.events_with(reason).await?;
                events.retain(|event| event.involved_object.name.as_deref() == Some(set));
                let says = |event: &&Event| event.message.iter().any(|text| text.contains(claim));
                let published: Vec<_> = events.iter().filter(says).collect();
                let once = published.len() == 1 && published[0].series.is_none();
                ensure!(once, "{events:?}");
                Ok(())
            },
        )
        .await
    }

    /// Starts a Volume Warden for this namespace, always with the same identity, so that no start
    /// waits for a Lease to expire.
    pub async fn own_warden(&self) -> Result<Warden> {
        let name = &self.space.name;
        let builder = Warden::builder(&self.space.cluster, BINARY).name(format!("warden-{name}"));
        let builder = builder
            .arg(format!("--namespace={name}"))
            .arg("--leader-elect-identity=own");
        let builder = builder.arg(format!("--leader-elect-resource-name={name}"));
        builder.arg("--components=pvc-retention").start().await
    }
}

/// The claim's owners: `set` or `pod` for complete references to living objects, `gone-pod`, or
/// their kind; then its mark, and `Terminating`.
pub fn words<'a>(claim: &'a PersistentVolumeClaim, living: &[Option<String>]) -> Vec<&'a str> {
    let mut words = Vec::new();
    for owner in claim.owner_references() {
        let there = living.contains(&Some(owner.uid.clone()));
        words.push(match (owner.kind.as_str(), there, complete(owner)) {
            ("StatefulSet", true, true) => "set",
            ("Pod", true, true) => "pod",
            ("Pod", false, _) => "gone-pod",
            (kind, ..) => kind,
        });
    }
    if let Some(mark) = claim.annotations().get(MARK) {
        let alive = living.contains(&Some(mark.clone()));
        words.push(if alive { "mark" } else { "gone-mark" });
    }
    let end = claim.metadata.deletion_timestamp.as_ref();
    words.extend(end.map(|_| "Terminating"));
    words
}

fn complete(owner: &OwnerReference) -> bool {
    owner.controller == Some(true)
        && (owner.kind == "Pod" || owner.block_owner_deletion == Some(true))
}
