//! The fields of a pod that are read from the wire.

use super::{metadata, owner_references};
use k8s_openapi::api::core::v1 as core;
use kube::{Resource, api::ObjectMeta};
use serde::{Deserialize, de::IgnoredAny};
use std::sync::Arc;

/// The kubelet marks with it the pods that it made from files on its node; the API server only mirrors them.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// A volume of a pod that is a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Name of the claim.
    pub claim: Arc<str>,
    /// The claim is made for this pod (`volumes[].ephemeral`), not named by it. Such a claim is the pod's only if the pod owns it.
    pub ephemeral: bool,
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

    pub(super) fn stateful_set(&self) -> Option<Box<str>> {
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

    pub(super) fn nothing_runs(&self) -> bool {
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
