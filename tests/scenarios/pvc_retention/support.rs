//! StatefulSets for the scenarios, and checks of their claims.

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

/// The annotation of the marker, which Volume Warden adds to a claim whose ordinal is in range
/// while `whenScaled` is Delete.
pub const MARK: &str = "volume-warden.dev/scaled-with";

/// Number of lines in the log of Volume Warden that report that the webhook could not read a set of
/// the namespace. After a failed read, the webhook admits the claim without an owner reference, or
/// refuses it.
pub fn failed_reads(log: &str, namespace: &str) -> usize {
    let message = "cannot read the StatefulSet";
    let set_prefix = format!("{namespace}/");
    let matches = |line: &&str| line.contains(message) && line.contains(&set_prefix);
    log.lines().filter(matches).count()
}

/// Changes to the set of [`set`], for claims with ambiguous names: they replace the claim template
/// by one named `template`, set the start ordinal, and make `label: "yes"` the only label of the
/// selector and the pods.
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

/// A namespace for one test, and its StatefulSets.
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

    /// Creates the set of [`set`], and waits until all its pods are ready.
    pub async fn create(&self, name: &str, replicas: i32, policy: Policy) -> Result<StatefulSet> {
        self.create_with(name, replicas, policy, json!({})).await
    }

    /// As [`Self::create`], with `changes` merged over the set.
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

    /// Waits until the status of the set reports exactly `replicas` pods, all ready.
    pub async fn has_ready(&self, name: &str, replicas: i32) -> Result<()> {
        let what = format!("set {name} has {replicas} ready pods");
        eventually(&what, async || {
            let set = self.sets.get(name).await?;
            let status = set.status.unwrap_or_default();
            let observed = status.observed_generation == set.metadata.generation;
            ensure!(observed, "the controller has not observed the last change");
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
        found.with_context(|| format!("claim {claim} does not exist"))
    }

    /// Waits until the claim has exactly these owners, written as `StatefulSet/web`. Each owner
    /// reference must have `controller: true`; one to another kind than Pod must also have
    /// `blockOwnerDeletion: true`.
    pub async fn claim_is_owned_by(&self, claim: &str, owners: &[&str]) -> Result<()> {
        let what = format!("claim {claim} is owned by {owners:?}");
        eventually(&what, async || {
            let found = self.owners(claim).await?;
            let name = |owner: &OwnerReference| format!("{}/{}", owner.kind, owner.name);
            let names: Vec<_> = found.iter().map(name).collect();
            ensure!(names == owners, "{names:?}");
            ensure!(found.iter().all(is_complete), "{found:?}");
            Ok(())
        })
        .await
    }

    /// Waits until the claim has the marker with this uid; with `None`, until it has no marker.
    pub async fn claim_is_marked(&self, claim: &str, uid: Option<&str>) -> Result<()> {
        let what = format!("claim {claim} has the marker {uid:?}");
        eventually(&what, async || {
            let claim = self.claim(claim).await?;
            let found = claim.annotations().get(MARK).map(String::as_str);
            ensure!(found == uid, "{found:?}");
            Ok(())
        })
        .await
    }

    pub async fn uid_of_claim(&self, claim: &str) -> Result<String> {
        self.claim(claim).await?.metadata.uid.context("a uid")
    }

    /// Waits until Volume Warden has processed all earlier changes. Creates a claim and its set,
    /// and waits until the claim has the set as owner: the reconciler processes the sets of a
    /// namespace in the order of their events.
    pub async fn changes_are_processed(&self) -> Result<()> {
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

    /// Runs `action`, and waits until new pods with these names are Running.
    pub async fn pods_are_replaced(
        &self,
        names: &[&str],
        action: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let pods = &self.space.pods;
        let before = try_join_all(names.iter().map(|name| pods.get(name))).await?;
        action.await?;
        for before in before {
            let name = before.name_any();
            eventually(&format!("a new pod {name} is Running"), async || {
                let current = pods.get(&name).await?;
                let is_new = current.uid() != before.uid();
                let phase = current.status.and_then(|status| status.phase);
                anyhow::Ok(is_new && phase.as_deref() == Some("Running"))
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until there is exactly one Event with this reason on the set whose message contains
    /// the name of the claim, and it was emitted once.
    pub async fn has_event(&self, reason: &str, set: &str, claim: &str) -> Result<()> {
        eventually(
            &format!("set {set} has one Event {reason} about claim {claim}"),
            async || {
                let mut events = self.space.events_with(reason).await?;
                events.retain(|event| event.involved_object.name.as_deref() == Some(set));
                let is_about_claim =
                    |event: &&Event| event.message.iter().any(|text| text.contains(claim));
                let published: Vec<_> = events.iter().filter(is_about_claim).collect();
                let once = published.len() == 1 && published[0].series.is_none();
                ensure!(once, "{events:?}");
                Ok(())
            },
        )
        .await
    }

    /// Starts a Volume Warden for this namespace. Every process has the same Lease identity, so it
    /// does not wait for the Lease of an earlier process to expire.
    pub async fn start_warden(&self) -> Result<Warden> {
        let name = &self.space.name;
        let builder = Warden::builder(&self.space.cluster, BINARY).name(format!("warden-{name}"));
        let builder = builder
            .arg(format!("--namespace={name}"))
            .arg("--leader-elect-identity=own");
        let builder = builder.arg(format!("--leader-elect-resource-name={name}"));
        builder.arg("--components=pvc-retention").start().await
    }
}

/// The state of the claim in words. `existing` contains the uids of the existing set and pod.
///
/// - One word for each owner: `set` or `pod` if the owner exists and the owner reference is
///   complete, `gone-pod` for a pod that does not exist, otherwise the kind of the owner.
/// - `mark` if the claim has a marker with the uid of an existing object, `gone-mark` if it has
///   another marker.
/// - `Terminating` if the claim is being deleted.
pub fn claim_state<'a>(
    claim: &'a PersistentVolumeClaim,
    existing: &[Option<String>],
) -> Vec<&'a str> {
    let mut words = Vec::new();
    for owner in claim.owner_references() {
        let exists = existing.contains(&Some(owner.uid.clone()));
        words.push(match (owner.kind.as_str(), exists, is_complete(owner)) {
            ("StatefulSet", true, true) => "set",
            ("Pod", true, true) => "pod",
            ("Pod", false, _) => "gone-pod",
            (kind, ..) => kind,
        });
    }
    if let Some(mark) = claim.annotations().get(MARK) {
        let exists = existing.contains(&Some(mark.clone()));
        words.push(if exists { "mark" } else { "gone-mark" });
    }
    let deletion = claim.metadata.deletion_timestamp.as_ref();
    words.extend(deletion.map(|_| "Terminating"));
    words
}

fn is_complete(owner: &OwnerReference) -> bool {
    owner.controller == Some(true)
        && (owner.kind == "Pod" || owner.block_owner_deletion == Some(true))
}
