//! Pods that request claims, and assertions about them.

use crate::support::{Space, claim, pod, shared::Shared, volume};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::core::v1::{Event, PersistentVolumeClaim, Pod},
    jiff::Timestamp,
};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Map, Value, json};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use volume_warden_controlplane::{DEFAULT_TIMEOUT, eventually, eventually_within};

/// Prefix of the annotation keys.
pub const PREFIX: &str = "dynamic-pvc-provisioner.kubernetes.io/";
/// Label of every claim that is created for a pod.
pub const LABEL: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
/// Annotation of a claim that was created at admission, until its pod exists.
pub const MARK: &str = "volume-warden.dev/awaiting-pod";
/// The default controller id.
pub const ID: &str = "dynamic-reclaimable-pvc-controllers";
/// Prefix of the names of canaries.
const CANARY: &str = "canary";
/// As on a claim that was restored from a backup.
pub const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// Volume Warden drops an Event that the API server does not accept within a few seconds. An Event
/// missing on a canary after this time is lost.
const LOST: Duration = Duration::from_secs(60);

/// Template of a claim whose class has no volumes.
pub const TEMPLATE: &str = "\
apiVersion: v1
kind: PersistentVolumeClaim
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: absent
  resources: {requests: {storage: 1Gi}}
";

/// Annotations, with [`PREFIX`] before each key.
pub fn annotations(pairs: &[(&str, Option<&str>)]) -> Value {
    let pairs = pairs.iter();
    let pairs: Map<_, _> = pairs
        .map(|(key, value)| (format!("{PREFIX}{key}"), json!(value)))
        .collect();
    json!({"metadata": {"annotations": pairs}})
}

/// A pod that requests the claim that its volume `data` names, merged with `changes`. The pod is
/// never scheduled.
pub fn asking(name: &str, claim: &str, changes: Value) -> Result<Pod> {
    let mut asked = annotations(&[("data.enabled", Some("true")), ("data.pvc", Some(TEMPLATE))]);
    asked["spec"] = json!({"schedulerName": "absent"});
    json_patch::merge(&mut asked, &changes);
    pod(name, claim, asked)
}

/// A volume that mounts this claim.
pub fn mount(volume: &str, claim: &str) -> Value {
    json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
}

/// As admission marks a claim now.
pub fn awaiting() -> Value {
    marked(&Timestamp::now().to_string())
}

/// Metadata of a claim that awaits a pod since this time.
pub fn marked(since: &str) -> Value {
    json!({"metadata": {"labels": {LABEL: ID}, "annotations": {MARK: since}}})
}

/// A namespace of one test, with pods that request claims.
pub struct Askers {
    pub space: Space,
}

impl Askers {
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let space = Space::new(cluster, label).await?;
        Ok(Self { space })
    }

    /// Creates the pod of [`asking`].
    pub async fn ask(&self, name: &str, claim: &str, changes: Value) -> Result<Pod> {
        let pod = asking(name, claim, changes)?;
        let created = self.space.pods.create(&PostParams::default(), &pod).await;
        Ok(created?)
    }

    pub async fn create_claim(&self, name: &str, changes: Value) -> Result<PersistentVolumeClaim> {
        let claim = claim(name, changes)?;
        let claims = &self.space.claims;
        Ok(claims.create(&PostParams::default(), &claim).await?)
    }

    pub async fn patch_pod(&self, name: &str, patch: Value) -> Result<()> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.space.pods.patch(name, &parameters, &patch).await?;
        Ok(())
    }

    pub async fn claim(&self, name: &str) -> Result<PersistentVolumeClaim> {
        let found = self.space.claims.get_opt(name).await?;
        found.with_context(|| format!("there is no claim {name}"))
    }

    /// The names of all claims but those of [`Askers::settled`].
    pub async fn claims(&self) -> Result<Vec<String>> {
        let claims = self
            .space
            .claims
            .list_metadata(&ListParams::default())
            .await?;
        let mut names: Vec<_> = claims.iter().map(ResourceExt::name_any).collect();
        names.retain(|name| !name.starts_with(CANARY));
        Ok(names)
    }

    /// Binds the claim to a volume of its own, as a provisioner does. The volume is deleted with
    /// it.
    pub async fn bind(&self, claim: &str) -> Result<()> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let found = self.claim(claim).await?;
        let namespace = &self.space.name;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let reference = json!({"namespace": namespace, "name": claim, "uid": found.metadata.uid});
        let spec = found.spec.unwrap_or_default();
        let spec = json!({
            "claimRef": reference, "storageClassName": spec.storage_class_name,
            "persistentVolumeReclaimPolicy": "Delete",
        });
        let volume = volume(&format!("{namespace}-{number}"), json!({"spec": spec}))?;
        let volumes = &self.space.volumes;
        volumes.create(&PostParams::default(), &volume).await?;
        eventually(&format!("claim {claim} is bound"), async || {
            anyhow::Ok(is_bound(&self.claim(claim).await?))
        })
        .await
    }

    /// Waits until the pod owns the claim: labelled, protected, and with the pod as its one owner
    /// without `blockOwnerDeletion`. Binds a claim that was created at admission with a class that
    /// has no provisioner, since such a claim gets its owner only once it is bound.
    pub async fn belongs(&self, claim: &str, pod: &Pod) -> Result<PersistentVolumeClaim> {
        let made = eventually(&format!("there is a claim {claim}"), async || {
            self.claim(claim).await.map(Some)
        })
        .await?;
        let class = made
            .spec
            .as_ref()
            .and_then(|spec| spec.storage_class_name.as_deref());
        if class == Some("absent") && made.annotations().contains_key(MARK) {
            self.bind(claim).await?;
        }
        let what = format!("claim {claim} belongs to pod {}", pod.name_any());
        eventually(&what, async || {
            let found = self.claim(claim).await?;
            is_given(&found, pod)?;
            anyhow::Ok(Some(found))
        })
        .await
    }

    /// The Events of Volume Warden on the pod so far: reasons and messages, sorted.
    pub async fn pod_events(&self, pod: &str) -> Result<Vec<(String, String)>> {
        let fields = format!("involvedObject.kind=Pod,involvedObject.name={pod}");
        let events = self
            .space
            .events
            .list(&ListParams::default().fields(&fields))
            .await?;
        let mut published = Vec::new();
        for event in events.items.into_iter().filter(is_from_volume_warden) {
            ensure!(
                event.series.is_none(),
                "published more than once: {event:?}"
            );
            let message = event.message.unwrap_or_default();
            published.push((event.reason.unwrap_or_default(), message));
        }
        published.sort();
        Ok(published)
    }

    /// Waits for exactly one such Event on the pod; returns its message.
    pub async fn has_event(&self, pod: &str, reason: &str, part: &str) -> Result<String> {
        self.has_event_within(DEFAULT_TIMEOUT, pod, reason, part)
            .await
    }

    async fn has_event_within(
        &self,
        limit: Duration,
        pod: &str,
        reason: &str,
        part: &str,
    ) -> Result<String> {
        let what = format!("{pod} has event {reason}: {part}");
        eventually_within(limit, &what, async || {
            let published = self.pod_events(pod).await?;
            let mut fitting = published
                .iter()
                .filter(|(each, message)| each == reason && message.contains(part));
            let first = fitting.next().map(|(_, message)| message.clone());
            ensure!(fitting.next().is_none(), "more than once: {published:?}");
            first.map(Some).with_context(|| format!("{published:?}"))
        })
        .await
    }

    /// The status codes of Volume Warden's CREATE requests for claims so far.
    pub fn creations(&self) -> Result<Vec<u16>> {
        let calls = self.space.cluster.audit().all()?;
        let calls = calls.by_user_agent("volume-warden/");
        let creations = calls.iter().filter(|call| {
            (&*call.verb, &*call.resource) == ("create", "persistentvolumeclaims")
                && call.namespace == self.space.name
        });
        Ok(creations.map(|call| call.code).collect())
    }

    /// Waits until Volume Warden has processed all earlier changes: a pod created now gets its
    /// claim and an Event. Creates one claim even if the Event is lost: then the next pod gets
    /// another Event, from [`Askers::heard`].
    pub async fn settled(&self) -> Result<()> {
        let canary = canary();
        self.ask(&canary, &canary, json!({})).await?;
        eventually("the canary has its claim", async || {
            self.claim(&canary).await.map(drop)
        })
        .await?;
        let published = self.has_event_within(LOST, &canary, "PVCProvisioned", &canary);
        match published.await {
            Ok(_) => Ok(()),
            Err(_) => self.heard().await,
        }
    }

    /// Waits until the watches of Volume Warden have delivered all earlier changes: an invalid pod
    /// created now gets its Event. Needs no claim.
    pub async fn heard(&self) -> Result<()> {
        let wrong = annotations(&[("data.enabled", Some("perhaps"))]);
        eventually("a canary has an Event about its error", async || {
            let canary = canary();
            self.ask(&canary, &canary, wrong.clone()).await?;
            self.has_event_within(LOST, &canary, "ErrInvalidAnnotation", "perhaps")
                .await
                .map(drop)
        })
        .await
    }
}

fn canary() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{CANARY}{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether the Event is about a pod of [`Askers::settled`] or [`Askers::heard`].
pub fn is_of_canary(event: &Event) -> bool {
    let name = event.involved_object.name.as_deref();
    name.is_some_and(|name| name.starts_with(CANARY))
}

/// Whether Volume Warden published the Event.
pub fn is_from_volume_warden(event: &Event) -> bool {
    event.reporting_component.as_deref() == Some("volume-warden.dev/volume-warden")
}

/// Phase Bound.
pub fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let status = claim.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// See [`Askers::belongs`].
pub fn is_given(claim: &PersistentVolumeClaim, pod: &Pod) -> Result<()> {
    let owners = json!(claim.owner_references());
    let expected = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid(), "controller": true, "blockOwnerDeletion": false,
    }]);
    ensure!(owners == expected, "owners: {owners}");
    is_made(claim)?;
    let mark = claim.annotations().get(MARK);
    ensure!(mark.is_none(), "it still awaits its pod: {mark:?}");
    Ok(())
}

/// Fails unless the claim has label and finalizer.
pub fn is_made(claim: &PersistentVolumeClaim) -> Result<()> {
    let (labels, finalizers) = (claim.labels(), claim.finalizers());
    ensure!(labels.get(LABEL).is_some_and(|id| id == ID), "{labels:?}");
    let protected = finalizers
        .iter()
        .any(|each| each == "kubernetes.io/pvc-protection");
    ensure!(protected, "{finalizers:?}");
    Ok(())
}
