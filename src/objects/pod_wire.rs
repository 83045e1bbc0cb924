//! The fields of a pod that are parsed.

pub use super::keys::MIRROR;
use super::{CompactText, is_possible_name, metadata, owner_references};
use crate::hashing::HashSet;
use k8s_openapi::api::core::v1 as core;
use kube::{Resource, api::ObjectMeta};
use serde::{Deserialize, de::IgnoredAny};
use std::{borrow::Cow, ops::Deref, slice, sync::Arc};

/// A volume of a pod that is a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mount {
    /// The name of the claim in the pod's namespace.
    pub claim: Arc<str>,
    /// Whether the claim is created for an ephemeral volume of the pod (`volumes[].ephemeral`). The
    /// pod uses such a claim only if it owns the claim.
    pub ephemeral: bool,
}

/// Maximum number of different claims whose names are kept of a pod. A pod can name tens of
/// thousands, which would take several times the memory that the pod takes in etcd.
pub const MAX_NAMES: usize = 1000;
/// Up to this number, names are compared with each other to find repetitions.
const LINEAR_SEARCH_MAX: usize = 8;

/// The different claims of a pod's volumes, in the order of the volumes. Most pods have one, for
/// which no list is allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounts(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    One(Mount),
    Any(Box<[Mount]>),
    TooMany,
}

impl Mounts {
    /// Returns whether the pod names more than [`MAX_NAMES`] claims. Their names are not kept, and
    /// any claim of the namespace may be among them.
    pub fn are_too_many(&self) -> bool {
        self.0 == Form::TooMany
    }

    /// Returns whether the pod names any claim.
    pub fn name_any(&self) -> bool {
        !self.is_empty() || self.are_too_many()
    }

    /// Returns whether a volume that `counts` has the claim with this name, or may have it because
    /// the pod names too many claims.
    pub fn may_name(&self, claim: &str, counts: impl Fn(&Mount) -> bool) -> bool {
        let mut mounts = self.iter();
        self.are_too_many() || mounts.any(|mount| *mount.claim == *claim && counts(mount))
    }
}

impl Deref for Mounts {
    type Target = [Mount];

    fn deref(&self) -> &[Mount] {
        match &self.0 {
            Form::One(mount) => slice::from_ref(mount),
            Form::Any(mounts) => mounts,
            Form::TooMany => &[],
        }
    }
}

impl FromIterator<Mount> for Mounts {
    fn from_iter<I: IntoIterator<Item = Mount>>(mounts: I) -> Self {
        let (mut kept, mut known) = (Vec::new(), HashSet::default());
        for mount in mounts {
            if kept.len() <= LINEAR_SEARCH_MAX {
                if kept.contains(&mount) {
                    continue;
                }
            } else {
                if known.is_empty() {
                    known.extend(kept.iter().cloned());
                }
                if !known.insert(mount.clone()) {
                    continue;
                }
            }
            if kept.len() == MAX_NAMES {
                return Self(Form::TooMany);
            }
            kept.push(mount);
        }
        Self(match <[Mount; 1]>::try_from(kept) {
            Ok([one]) => Form::One(one),
            Err(mounts) => Form::Any(mounts.into()),
        })
    }
}

/// The fields of a pod that are parsed.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = core::Pod)]
pub struct PodWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// The `spec`, of which only node and volumes are parsed.
    #[serde(default)]
    pub spec: PodSpec,
    /// The `status`, of which only phase and containers are parsed.
    #[serde(default)]
    pub status: PodStatus,
}

/// The fields of a pod's `spec` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// The name of the pod's node; empty until the pod is scheduled.
    #[serde(default)]
    pub node_name: Option<String>,
    /// All volumes, also those that are no claims.
    #[serde(default)]
    pub volumes: Vec<PodVolume>,
}

/// The fields of a pod's volume that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodVolume {
    /// The name of the volume, which is a part of the claim's name for an ephemeral volume.
    #[serde(default)]
    pub name: String,
    /// Set for a volume that names a claim, which need not exist.
    #[serde(default)]
    pub persistent_volume_claim: Option<ClaimSource>,
    /// Set for an ephemeral volume, whose claim has the name `<pod>-<volume>`.
    #[serde(default)]
    pub ephemeral: Option<IgnoredAny>,
}

/// The fields of `volumes[].persistentVolumeClaim` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSource {
    /// The name of the claim in the pod's namespace.
    #[serde(default)]
    pub claim_name: String,
}

/// The fields of a pod's `status` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// The phase of the pod: Pending, Running, Succeeded, Failed or Unknown.
    #[serde(default)]
    pub phase: Option<String>,
    /// The statuses of the regular containers.
    #[serde(default)]
    pub container_statuses: Vec<ContainerStatus>,
    /// The statuses of the init containers.
    #[serde(default)]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// The statuses of the ephemeral (debug) containers.
    #[serde(default)]
    pub ephemeral_container_statuses: Vec<ContainerStatus>,
}

/// What is read of a container status: whether the container runs.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ContainerStatus {
    /// The state of the container.
    #[serde(default)]
    pub state: ContainerState,
}

/// The state of a container. A container that is neither terminated nor waiting runs.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ContainerState {
    /// Set if the container has terminated.
    #[serde(default)]
    pub terminated: Option<IgnoredAny>,
    /// Set if the container has not started.
    #[serde(default)]
    pub waiting: Option<IgnoredAny>,
}

impl PodWire {
    /// Returns every claim that the pod names or that is created for its ephemeral volumes, once,
    /// in the order of its volumes. Names that no claim can have are left out: they may be as long
    /// as the pod, and may have any characters.
    pub fn mounts(&self) -> Mounts {
        let pod = self.metadata.name.as_deref().unwrap_or_default();
        let mounts = self.spec.volumes.iter().filter_map(|volume| {
            let (claim, ephemeral) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(source), _) => (Cow::from(&source.claim_name), false),
                (None, Some(_)) => (Cow::from(format!("{pod}-{}", volume.name)), true),
                (None, None) => return None,
            };
            is_possible_name(&claim).then(|| Mount {
                claim: claim.into(),
                ephemeral,
            })
        });
        mounts.collect()
    }

    pub(super) fn stateful_set(&self) -> Option<CompactText> {
        let owners = self.metadata.owner_references.as_deref()?;
        let controller = owner_references::controller(owners)?;
        let is_set =
            controller.kind == "StatefulSet" && owner_references::group(controller) == "apps";
        is_set.then(|| CompactText::from(&controller.uid))
    }

    /// Returns whether `spec.nodeName` is set.
    pub fn is_scheduled(&self) -> bool {
        self.spec
            .node_name
            .as_deref()
            .is_some_and(|node| !node.is_empty())
    }

    /// Returns whether this is a mirror pod: the object by which a kubelet shows a static pod in
    /// the API.
    pub fn is_mirror(&self) -> bool {
        self.metadata
            .annotations
            .as_ref()
            .is_some_and(|annotations| annotations.contains_key(MIRROR))
    }
}

impl PodStatus {
    /// Returns whether the phase is Pending.
    pub fn is_pending(&self) -> bool {
        self.phase.as_deref() == Some("Pending")
    }

    /// Returns whether the phase is Succeeded or Failed. By default, `pvc-protection` still keeps
    /// the claims of such a pod.
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
