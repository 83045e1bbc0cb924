//! PersistentVolumeClaims.

use super::{Kind, Tracked, finalizers, metadata};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

/// The binder writes it on a claim when the binding is complete on both sides.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// What the rules read of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Tells this claim from an earlier or later one of the same name.
    pub uid: Box<str>,
    /// The version this was read at.
    pub resource_version: Box<str>,
    /// `deletionTimestamp` is set. It is never unset again.
    pub deleting: bool,
    /// In the order of the object.
    pub finalizers: Box<[Box<str>]>,
    /// The uid of the one owner that is a controller.
    pub controller: Option<Box<str>>,
    /// The volume this claim names; empty where it names none.
    pub volume_name: Box<str>,
    /// The binder has completed the binding.
    pub bind_completed: bool,
}

impl Claim {
    /// How the claim stands towards its protection finalizer.
    pub fn standing(&self) -> finalizers::Standing {
        finalizers::standing(self.deleting, &self.finalizers, finalizers::PVC_PROTECTION)
    }

    /// Whether the claim and the volume of this name are a bound pair from the claim's side.
    pub fn is_bound_to(&self, volume: &str) -> bool {
        self.bind_completed && &*self.volume_name == volume
    }
}

/// The part of a claim that is read from the wire.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PersistentVolumeClaim)]
pub struct ClaimWire {
    /// Standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// The claim's wish.
    #[serde(default)]
    pub spec: ClaimSpec,
}

/// The part of a claim's `spec` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSpec {
    /// The bound or wished volume.
    #[serde(default)]
    pub volume_name: Option<String>,
}

impl From<ClaimWire> for Claim {
    fn from(wire: ClaimWire) -> Self {
        let metadata = wire.metadata;
        let controller = metadata
            .owner_references
            .unwrap_or_default()
            .into_iter()
            .find(|owner| owner.controller == Some(true));
        let annotations = metadata.annotations.unwrap_or_default();
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
            controller: controller.map(|owner| owner.uid.into()),
            volume_name: wire.spec.volume_name.unwrap_or_default().into(),
            bind_completed: annotations.contains_key(BIND_COMPLETED),
        }
    }
}

impl Tracked for Claim {
    type Wire = ClaimWire;
    const KIND: Kind = Kind::PersistentVolumeClaim;

    fn track(wire: ClaimWire) -> Option<Self> {
        Some(wire.into())
    }
}
