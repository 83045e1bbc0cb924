//! Pods, as users of claims.
//!
//! Source: `pkg/controller/volume/pvcprotection/pvc_protection_controller.go` (`podUsesPVC`, `podIsShutDown`) and
//! `pkg/volume/util/util.go` (`IsPodTerminated`) of Kubernetes.

use super::{Kind, ObjectName, Tracked, metadata, owner_references, wishes::Wishes};
use k8s_openapi::api::core::v1 as core;
use kube::{Resource, api::ObjectMeta};
use serde::{Deserialize, de::IgnoredAny};
use std::sync::Arc;

/// The kubelet marks with it the pods that it made from files on its node; the API server only mirrors them.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// What the rules read of a pod. Pods without a claim, and without a wish for one, are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Tells this pod from an earlier or later one of the same name.
    pub uid: Box<str>,
    /// `spec.nodeName` is set.
    pub scheduled: bool,
    /// Phase Succeeded or Failed.
    pub finished: bool,
    /// Being deleted with no container of any sort running; an empty list of statuses counts.
    pub stopped: bool,
    /// Being deleted with a grace period of zero: the kubelet is done with it, and only finalizers hold the object.
    pub shut_down: bool,
    /// In the order of `spec.volumes`.
    pub mounts: Box<[Mount]>,
    /// The uid of the StatefulSet that controls it.
    pub stateful_set: Option<Box<str>>,
    /// The claims it asks to be made for it.
    pub wishes: Option<Box<Wishes>>,
}

/// A volume of a pod that is a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Name of the claim.
    pub claim: Arc<str>,
    /// The claim is made for this pod (`volumes[].ephemeral`), not named by it. Such a claim is the pod's only if the pod owns it.
    pub ephemeral: bool,
}

impl Pod {
    /// Nothing of the pod runs any more, or never will.
    pub fn terminated(&self) -> bool {
        self.finished || self.stopped
    }

    /// The claims the pod names, in whatever way.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.mounts.iter().map(|mount| &mount.claim)
    }
}

/// The part of a pod that is read from the wire.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = core::Pod)]
pub struct PodWire {
    /// Standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// What the pod is made of.
    #[serde(default)]
    pub spec: PodSpec,
    /// What became of it.
    #[serde(default)]
    pub status: PodStatus,
}

/// The part of a pod's `spec` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// Empty until the pod is scheduled.
    #[serde(default)]
    pub node_name: Option<String>,
    /// All volumes, whatever they are.
    #[serde(default)]
    pub volumes: Vec<PodVolume>,
}

/// The part of a pod's volume that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodVolume {
    /// Part of the claim's name for an ephemeral volume.
    #[serde(default)]
    pub name: String,
    /// A claim by name.
    #[serde(default)]
    pub persistent_volume_claim: Option<ClaimSource>,
    /// A claim made for this pod, named `<pod>-<volume>`.
    #[serde(default)]
    pub ephemeral: Option<IgnoredAny>,
}

/// `volumes[].persistentVolumeClaim`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSource {
    /// The claim, in the pod's namespace.
    #[serde(default)]
    pub claim_name: String,
}

/// The part of a pod's `status` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    #[serde(default)]
    pub phase: Option<String>,
    /// Regular containers.
    #[serde(default)]
    pub container_statuses: Vec<ContainerStatus>,
    /// Init containers.
    #[serde(default)]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Ephemeral (debug) containers.
    #[serde(default)]
    pub ephemeral_container_statuses: Vec<ContainerStatus>,
}

/// Whether a container runs.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ContainerStatus {
    /// Its state.
    #[serde(default)]
    pub state: ContainerState,
}

/// The states that matter: a container that is neither terminated nor waiting runs.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ContainerState {
    /// It has ended.
    #[serde(default)]
    pub terminated: Option<IgnoredAny>,
    /// It has not started.
    #[serde(default)]
    pub waiting: Option<IgnoredAny>,
}

impl PodWire {
    /// Every claim the pod names or would have made for it, in the order of its volumes.
    pub fn mounts(&self) -> Box<[Mount]> {
        let pod = self.metadata.name.as_deref().unwrap_or_default();
        let mounts = self.spec.volumes.iter().filter_map(|volume| {
            match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(source), _) => Some(Mount {
                    claim: source.claim_name.as_str().into(),
                    ephemeral: false,
                }),
                (None, Some(_)) => Some(Mount {
                    claim: format!("{pod}-{}", volume.name).into(),
                    ephemeral: true,
                }),
                (None, None) => None,
            }
        });
        mounts.collect()
    }

    fn stateful_set(&self) -> Option<Box<str>> {
        let owners = self.metadata.owner_references.as_deref()?;
        let controller = owner_references::controller(owners)?;
        let is_set =
            controller.kind == "StatefulSet" && controller.api_version.starts_with("apps/");
        is_set.then(|| controller.uid.as_str().into())
    }

    /// `spec.nodeName` is set.
    pub fn is_scheduled(&self) -> bool {
        self.spec
            .node_name
            .as_deref()
            .is_some_and(|node| !node.is_empty())
    }

    /// The API server's image of a pod that a kubelet made from a file.
    pub fn is_mirror(&self) -> bool {
        self.metadata
            .annotations
            .as_ref()
            .is_some_and(|annotations| annotations.contains_key(MIRROR))
    }
}

impl PodStatus {
    /// The pod does not run yet.
    pub fn is_pending(&self) -> bool {
        self.phase.as_deref() == Some("Pending")
    }

    /// The pod has ended.
    pub(super) fn finished(&self) -> bool {
        matches!(self.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    fn nothing_runs(&self) -> bool {
        let containers = [
            &self.container_statuses,
            &self.init_container_statuses,
            &self.ephemeral_container_statuses,
        ];
        containers.into_iter().flatten().all(|container| {
            container.state.terminated.is_some() || container.state.waiting.is_some()
        })
    }
}

impl From<PodWire> for Pod {
    fn from(wire: PodWire) -> Self {
        let deleting = wire.metadata.deletion_timestamp.is_some();
        Self {
            scheduled: wire.is_scheduled(),
            finished: wire.status.finished(),
            stopped: deleting && wire.status.nothing_runs(),
            shut_down: deleting && wire.metadata.deletion_grace_period_seconds == Some(0),
            mounts: wire.mounts(),
            stateful_set: wire.stateful_set(),
            wishes: Wishes::of(&wire).map(|wishes| Box::new(wishes.compact())),
            uid: wire.metadata.uid.unwrap_or_default().into(),
        }
    }
}

impl Tracked for Pod {
    type Wire = PodWire;
    const KIND: Kind = Kind::Pod;

    fn track(wire: PodWire) -> Option<Self> {
        Some(Self::from(wire)).filter(|pod| !pod.mounts.is_empty() || pod.wishes.is_some())
    }

    fn references(&self, name: &ObjectName) -> Vec<ObjectName> {
        self.claims()
            .map(|claim| ObjectName::new(name.namespace.clone(), claim.clone()))
            .collect()
    }
}
