//! The fields of a volume that are parsed.

use super::{fit::VolumeProperties, metadata, quantity};
use k8s_openapi::{api::core::v1::PersistentVolume, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The reclaim policy of a volume that is kept after its claim is deleted.
pub const RETAIN: &str = "Retain";
/// The reclaim policy of a volume that is deleted after its claim.
pub const DELETE: &str = "Delete";

/// The phase of a volume, as far as a rule needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The volume is bound to a claim.
    Bound,
    /// The claim of the volume was deleted.
    Released,
    /// The claim of the volume was deleted, and the deletion or recycling of the volume failed.
    Failed,
    /// The phase is Pending or Available, or is not reported yet.
    Other,
}

/// What happens to a volume and its data after its claim is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimPolicy {
    /// They are kept.
    Retain,
    /// They are deleted.
    Delete,
    /// The policy is Recycle.
    Other,
}

/// The fields of a volume that are parsed.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PersistentVolume)]
pub struct VolumeWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// The `spec`, without the source of the data.
    #[serde(default)]
    pub spec: VolumeSpec,
    /// The `status`, of which the phase and its last change are parsed.
    #[serde(default)]
    pub status: VolumeStatus,
}

/// The fields of a volume's `spec` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSpec {
    /// The claim that the volume is or was bound to, or is reserved for.
    #[serde(default)]
    pub claim_ref: Option<ClaimRefWire>,
    /// The reclaim policy: Retain, Delete or Recycle.
    #[serde(default)]
    pub persistent_volume_reclaim_policy: Option<String>,
    /// The name of the StorageClass; none counts as an empty name.
    #[serde(default)]
    pub storage_class_name: Option<String>,
    /// The amount of each resource, of which volumes have `storage`.
    #[serde(default)]
    pub capacity: Option<BTreeMap<String, String>>,
    /// The access modes of the volume.
    #[serde(default)]
    pub access_modes: Vec<String>,
    /// The mode: Filesystem or Block.
    #[serde(default)]
    pub volume_mode: Option<String>,
    /// The name of the VolumeAttributesClass.
    #[serde(default)]
    pub volume_attributes_class_name: Option<String>,
}

impl VolumeSpec {
    pub(super) fn reclaim_policy(&self) -> ReclaimPolicy {
        match self.persistent_volume_reclaim_policy.as_deref() {
            Some(RETAIN) => ReclaimPolicy::Retain,
            Some(DELETE) => ReclaimPolicy::Delete,
            _ => ReclaimPolicy::Other,
        }
    }

    pub(super) fn storage(&self) -> Option<&str> {
        let storage = self.capacity.as_ref()?.get("storage")?;
        Some(storage)
    }

    pub(super) fn properties(&self, labels: Option<&BTreeMap<String, String>>) -> VolumeProperties {
        VolumeProperties {
            capacity: self.storage().map_or(0.0, quantity::of),
            access_modes: self.access_modes.clone(),
            mode: self.volume_mode.clone(),
            attributes_class: self.volume_attributes_class_name.clone(),
            labels: labels.cloned().unwrap_or_default(),
        }
    }
}

/// The fields of `spec.claimRef` that are parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRefWire {
    /// The namespace of the claim.
    #[serde(default)]
    pub namespace: String,
    /// The name of the claim.
    #[serde(default)]
    pub name: String,
    /// The uid of the claim; empty for a reservation by name.
    #[serde(default)]
    pub uid: String,
    /// The `resourceVersion` of the claim when kube-controller-manager or a provisioner bound it. A
    /// release with `--release-mode=soft` removes it.
    #[serde(default)]
    pub resource_version: Option<String>,
}

/// The fields of a volume's `status` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
    /// The phase of the volume: Pending, Available, Bound, Released or Failed.
    #[serde(default)]
    pub phase: Option<String>,
    /// When the phase last changed; none if that cannot be read.
    #[serde(default, deserialize_with = "metadata::readable_time")]
    pub last_phase_transition_time: Option<Time>,
}

impl VolumeStatus {
    pub(super) fn phase(&self) -> Phase {
        match self.phase.as_deref() {
            Some("Bound") => Phase::Bound,
            Some("Released") => Phase::Released,
            Some("Failed") => Phase::Failed,
            _ => Phase::Other,
        }
    }
}

impl VolumeWire {
    /// Returns whether `status.phase` is Bound.
    pub fn is_bound(&self) -> bool {
        self.status.phase() == Phase::Bound
    }

    /// Returns the uid of the claim that the volume is or was bound to; empty if it is only
    /// reserved or free.
    pub fn claim_uid(&self) -> &str {
        self.spec.claim_ref.as_ref().map_or("", |claim| &claim.uid)
    }
}
