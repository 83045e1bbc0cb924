//! PersistentVolumes.

use super::{Kind, Tracked, finalizers, metadata};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

/// The phase in which a volume is in use.
const BOUND: &str = "Bound";

/// What the rules read of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Tells this volume from an earlier or later one of the same name.
    pub uid: Box<str>,
    /// The version this was read at.
    pub resource_version: Box<str>,
    /// `deletionTimestamp` is set.
    pub deleting: bool,
    /// In the order of the object.
    pub finalizers: Box<[Box<str>]>,
    /// `status.phase` is Bound.
    pub bound: bool,
}

impl Volume {
    /// How the volume stands towards its protection finalizer.
    pub fn standing(&self) -> finalizers::Standing {
        finalizers::standing(self.deleting, &self.finalizers, finalizers::PV_PROTECTION)
    }
}

/// The part of a volume that is read from the wire.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PersistentVolume)]
pub struct VolumeWire {
    /// Standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// What the volume is and whose.
    #[serde(default)]
    pub spec: VolumeSpec,
    /// Where it is in its life.
    #[serde(default)]
    pub status: VolumeStatus,
}

/// The part of a volume's `spec` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSpec {
    /// The claim the volume is bound to or reserved for.
    #[serde(default)]
    pub claim_ref: Option<ClaimRef>,
}

/// `spec.claimRef`: a reservation without uid, a binding with one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ClaimRef {
    /// Namespace of the claim.
    #[serde(default)]
    pub namespace: String,
    /// Name of the claim.
    #[serde(default)]
    pub name: String,
    /// Empty for a reservation by name.
    #[serde(default)]
    pub uid: String,
}

/// The part of a volume's `status` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct VolumeStatus {
    /// Pending, Available, Bound, Released or Failed.
    #[serde(default)]
    pub phase: Option<String>,
}

impl VolumeWire {
    /// `status.phase` is Bound.
    pub fn is_bound(&self) -> bool {
        self.status.phase.as_deref() == Some(BOUND)
    }

    /// The uid of the claim it is bound to; empty where it is free or only reserved.
    pub fn claim_uid(&self) -> &str {
        self.spec.claim_ref.as_ref().map_or("", |claim| &claim.uid)
    }
}

impl From<VolumeWire> for Volume {
    fn from(wire: VolumeWire) -> Self {
        let bound = wire.is_bound();
        let metadata = wire.metadata;
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default().into(),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata
                .finalizers
                .unwrap_or_default()
                .into_iter()
                .map(Into::into)
                .collect(),
            bound,
        }
    }
}

impl Tracked for Volume {
    type Wire = VolumeWire;
    const KIND: Kind = Kind::PersistentVolume;

    fn track(wire: VolumeWire) -> Option<Self> {
        Some(wire.into())
    }
}
