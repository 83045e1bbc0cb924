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
/// Label of every claim that Volume Warden creates for a pod.
pub const MANAGED_BY: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
/// The marker: the annotation of a claim that was created at admission, until the claim gets its
/// pod as the owner.
pub const AWAITING_POD: &str = "volume-warden.dev/awaiting-pod";
/// The default controller id.
pub const CONTROLLER_ID: &str = "dynamic-reclaimable-pvc-controllers";
/// Prefix of the names of canaries: the pods of [`PodSpace::wait_until_processed`] and
/// [`PodSpace::wait_for_watches`], and their claims.
const CANARY_PREFIX: &str = "canary";
/// The time in the marker of a claim that was restored from a backup.
pub const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// Time after which a missing Event on a canary is considered lost. Volume Warden drops an Event
/// that the API server does not accept within a few seconds.
const EVENT_LOST_AFTER: Duration = Duration::from_secs(60);

/// Template of a claim whose class has no volumes.
pub const TEMPLATE: &str = "\
apiVersion: v1
kind: PersistentVolumeClaim
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: absent
  resources: {requests: {storage: 1Gi}}
";

/// Changes to an object: these annotations, with [`PREFIX`] before each key. `None` removes an
/// annotation.
pub fn annotations(pairs: &[(&str, Option<&str>)]) -> Value {
    let pairs = pairs.iter();
    let pairs: Map<_, _> = pairs
        .map(|(key, value)| (format!("{PREFIX}{key}"), json!(value)))
        .collect();
    json!({"metadata": {"annotations": pairs}})
}

/// A pod that requests the claim of its volume `data`, with `changes` merged over it. Without
/// changes the pod is never scheduled.
pub fn requesting_pod(name: &str, claim: &str, changes: Value) -> Result<Pod> {
    let mut request = annotations(&[("data.enabled", Some("true")), ("data.pvc", Some(TEMPLATE))]);
    request["spec"] = json!({"schedulerName": "absent"});
    json_patch::merge(&mut request, &changes);
    pod(name, claim, request)
}

/// A volume of a pod that uses this claim.
pub fn mount(volume: &str, claim: &str) -> Value {
    json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
}

/// Metadata of a claim that admission creates now.
pub fn awaiting() -> Value {
    awaiting_since(&Timestamp::now().to_string())
}

/// Metadata of a claim that admission created at this time, and that awaits its pod.
pub fn awaiting_since(since: &str) -> Value {
    json!({"metadata": {
        "labels": {MANAGED_BY: CONTROLLER_ID}, "annotations": {AWAITING_POD: since},
    }})
}

/// The namespace of one test, in which pods request claims.
pub struct PodSpace {
    pub space: Space,
}

impl PodSpace {
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        let space = Space::new(cluster, label).await?;
        Ok(Self { space })
    }

    /// Creates a pod that requests the claim, as [`requesting_pod`] builds it.
    pub async fn request_claim(&self, name: &str, claim: &str, changes: Value) -> Result<Pod> {
        let pod = requesting_pod(name, claim, changes)?;
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
        found.with_context(|| format!("claim {name} does not exist"))
    }

    /// The names of all claims except those of the canaries.
    pub async fn claim_names(&self) -> Result<Vec<String>> {
        let claims = self
            .space
            .claims
            .list_metadata(&ListParams::default())
            .await?;
        let mut names: Vec<_> = claims.iter().map(ResourceExt::name_any).collect();
        names.retain(|name| !name.starts_with(CANARY_PREFIX));
        Ok(names)
    }

    /// Creates a volume for the claim, as a provisioner does, and waits until the claim is bound.
    /// The volume has the reclaim policy Delete.
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

    /// Waits until the pod owns the claim, as [`is_owned_by`] defines. Binds a claim that was
    /// created at admission with a class that has no provisioner, because such a claim gets its
    /// owner only once it is bound.
    pub async fn belongs(&self, claim: &str, pod: &Pod) -> Result<PersistentVolumeClaim> {
        let created = eventually(&format!("claim {claim} exists"), async || {
            self.claim(claim).await.map(Some)
        })
        .await?;
        let class = created
            .spec
            .as_ref()
            .and_then(|spec| spec.storage_class_name.as_deref());
        if class == Some("absent") && created.annotations().contains_key(AWAITING_POD) {
            self.bind(claim).await?;
        }
        let what = format!("pod {} owns claim {claim}", pod.name_any());
        eventually(&what, async || {
            let found = self.claim(claim).await?;
            is_owned_by(&found, pod)?;
            anyhow::Ok(Some(found))
        })
        .await
    }

    /// The reasons and messages of the Events that Volume Warden has published on the pod so far,
    /// sorted. Fails if an Event was published more than once.
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

    /// Waits until the pod has exactly one Event of Volume Warden with this reason and this part of
    /// its message. Returns the message.
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
        let what = format!("pod {pod} has the Event {reason}: {part}");
        eventually_within(limit, &what, async || {
            let published = self.pod_events(pod).await?;
            let mut matching = published
                .iter()
                .filter(|(each, message)| each == reason && message.contains(part));
            let first = matching.next().map(|(_, message)| message.clone());
            ensure!(matching.next().is_none(), "more than once: {published:?}");
            first.map(Some).with_context(|| format!("{published:?}"))
        })
        .await
    }

    /// The status codes of Volume Warden's CREATE requests for claims so far.
    pub fn creation_codes(&self) -> Result<Vec<u16>> {
        let calls = self.space.cluster.audit().all()?;
        let calls = calls.by_user_agent("volume-warden/");
        let creations = calls.iter().filter(|call| {
            (&*call.verb, &*call.resource) == ("create", "persistentvolumeclaims")
                && call.namespace == self.space.name
        });
        Ok(creations.map(|call| call.code).collect())
    }

    /// Waits until Volume Warden has processed all earlier changes: a canary created now has its
    /// claim and an Event. If that Event is lost, [`PodSpace::wait_for_watches`] waits for an Event
    /// on another canary, so that exactly one claim is created.
    pub async fn wait_until_processed(&self) -> Result<()> {
        let canary = canary();
        self.request_claim(&canary, &canary, json!({})).await?;
        eventually("the claim of the canary exists", async || {
            self.claim(&canary).await.map(drop)
        })
        .await?;
        let published = self.has_event_within(EVENT_LOST_AFTER, &canary, "PVCProvisioned", &canary);
        match published.await {
            Ok(_) => Ok(()),
            Err(_) => self.wait_for_watches().await,
        }
    }

    /// Waits until the watches of Volume Warden have delivered all earlier changes: a canary with
    /// an invalid annotation, created now, has an Event. Creates no claim.
    pub async fn wait_for_watches(&self) -> Result<()> {
        let invalid = annotations(&[("data.enabled", Some("perhaps"))]);
        eventually(
            "a canary has an Event about its invalid annotation",
            async || {
                let canary = canary();
                self.request_claim(&canary, &canary, invalid.clone())
                    .await?;
                self.has_event_within(EVENT_LOST_AFTER, &canary, "ErrInvalidAnnotation", "perhaps")
                    .await
                    .map(drop)
            },
        )
        .await
    }
}

/// A new name for a canary.
fn canary() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{CANARY_PREFIX}{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether the Event is about a canary.
pub fn is_about_canary(event: &Event) -> bool {
    let name = event.involved_object.name.as_deref();
    name.is_some_and(|name| name.starts_with(CANARY_PREFIX))
}

/// Whether Volume Warden published the Event.
pub fn is_from_volume_warden(event: &Event) -> bool {
    event.reporting_component.as_deref() == Some("volume-warden.dev/volume-warden")
}

/// Whether the phase of the claim is Bound.
pub fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let status = claim.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// Fails unless the claim has its label and finalizer, has the pod as its only owner, without
/// `blockOwnerDeletion`, and has no marker.
pub fn is_owned_by(claim: &PersistentVolumeClaim, pod: &Pod) -> Result<()> {
    let owners = json!(claim.owner_references());
    let expected = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid(), "controller": true, "blockOwnerDeletion": false,
    }]);
    ensure!(owners == expected, "owners: {owners}");
    has_label_and_finalizer(claim)?;
    let marker = claim.annotations().get(AWAITING_POD);
    ensure!(
        marker.is_none(),
        "the claim still awaits its pod: {marker:?}"
    );
    Ok(())
}

/// Fails unless the claim has the label of Volume Warden and the finalizer that protects it.
pub fn has_label_and_finalizer(claim: &PersistentVolumeClaim) -> Result<()> {
    let (labels, finalizers) = (claim.labels(), claim.finalizers());
    ensure!(
        labels.get(MANAGED_BY).is_some_and(|id| id == CONTROLLER_ID),
        "{labels:?}"
    );
    let protected = finalizers
        .iter()
        .any(|each| each == "kubernetes.io/pvc-protection");
    ensure!(protected, "{finalizers:?}");
    Ok(())
}
