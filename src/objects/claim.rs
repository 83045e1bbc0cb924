//! PersistentVolumeClaims.

use super::{
    Kind, ManagedBy, ObjectName, Tracked, finalizers, metadata, owner_references,
    stateful_set::{Label, ordinal, readings},
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

/// The binder writes it on a claim when the binding is complete on both sides.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// Volume Warden's marker, with the uid of a StatefulSet: when the claim's ordinal was last seen in range, the set wanted its claims deleted when they are
/// scaled away.
pub const SCALED_WITH: &str = "volume-warden.dev/scaled-with";

/// Volume Warden's marker, with the time of the claim's creation (RFC 3339): the claim was created for a pod that was not stored yet, and has no owner.
pub const AWAITING_POD: &str = "volume-warden.dev/awaiting-pod";

/// What the rules read of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Distinguishes the claim from an earlier or later one of the same name.
    pub uid: Box<str>,
    /// The version this was read at.
    pub resource_version: Box<str>,
    /// `deletionTimestamp` is set. It is never unset again.
    pub deleting: bool,
    /// When that was, in seconds since 1970; 0 while it lives.
    pub deleted: i64,
    /// In the order of the object.
    pub finalizers: Box<[Box<str>]>,
    /// In the order of the object.
    pub owners: Box<[OwnerReference]>,
    /// Kept only where the name leaves open which StatefulSet the claim is of.
    pub labels: Box<[Label]>,
    /// The installation that manages the claim, or its volume.
    pub managed_by: Option<Box<ManagedBy>>,
    /// [`SCALED_WITH`]
    pub scaled_with: Option<Box<str>>,
    /// When the claim was created, in seconds since 1970.
    pub created: i64,
    /// [`AWAITING_POD`]
    pub awaiting_pod: Option<Box<str>>,
    /// There are annotations, whatever they are: one that is added needs a map to be in.
    pub annotated: bool,
    /// The volume this claim names; empty where it names none.
    pub volume_name: Box<str>,
    /// The binder has completed the binding.
    pub bind_completed: bool,
    /// `status.phase` is Pending or not set yet. Bound is the last write of
    /// kube-controller-manager's binder to a claim (`bind` in `pv_controller.go`), after volume
    /// name and `bind-completed`.
    pub pending: bool,
}

impl Claim {
    /// The uid of the one owner that is a controller.
    pub fn controller(&self) -> Option<&str> {
        owner_references::controller(&self.owners).map(|owner| owner.uid.as_str())
    }

    /// How the claim stands towards its protection finalizer.
    pub fn finalizer_state(&self) -> finalizers::FinalizerState {
        finalizers::finalizer_state(self.deleting, &self.finalizers, finalizers::PVC_PROTECTION)
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
    /// What became of it.
    #[serde(default)]
    pub status: ClaimStatus,
}

/// The part of a claim's `spec` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSpec {
    /// The bound or wished volume.
    #[serde(default)]
    pub volume_name: Option<String>,
}

/// The part of a claim's `status` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ClaimStatus {
    /// Pending, Bound or Lost.
    #[serde(default)]
    pub phase: Option<String>,
}

impl From<ClaimWire> for Claim {
    fn from(wire: ClaimWire) -> Self {
        let metadata = wire.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        let ambiguous = readings(name).nth(1).is_some();
        let managed_by = metadata.labels.as_ref().and_then(ManagedBy::of);
        let labels = metadata.labels.filter(|_| ambiguous).unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        let created = metadata.creation_timestamp.as_ref();
        let deleted = metadata.deletion_timestamp.as_ref();
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default().into(),
            deleting: deleted.is_some(),
            deleted: deleted.map_or(0, |time| time.0.as_second()),
            finalizers: metadata
                .finalizers
                .unwrap_or_default()
                .into_iter()
                .map(Into::into)
                .collect(),
            owners: metadata.owner_references.unwrap_or_default().into(),
            labels: labels
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            managed_by,
            scaled_with: annotations.get(SCALED_WITH).map(|uid| uid.as_str().into()),
            created: created.map_or(0, |time| time.0.as_second()),
            awaiting_pod: annotations
                .get(AWAITING_POD)
                .map(|time| time.as_str().into()),
            annotated: !annotations.is_empty(),
            volume_name: wire.spec.volume_name.unwrap_or_default().into(),
            bind_completed: annotations.contains_key(BIND_COMPLETED),
            pending: !matches!(wire.status.phase.as_deref(), Some("Bound" | "Lost")),
        }
    }
}

impl Tracked for Claim {
    type Wire = ClaimWire;
    const KIND: Kind = Kind::PersistentVolumeClaim;

    fn track(wire: ClaimWire) -> Option<Self> {
        Some(wire.into())
    }

    /// What the claims of one template of one StatefulSet have in common: the name up to the ordinal.
    fn references(&self, name: &ObjectName) -> Vec<ObjectName> {
        let before = ordinal(&name.name).map(|(before, _)| before);
        let common = before.map(|before| ObjectName::new(name.namespace.clone(), before));
        common.into_iter().collect()
    }
}
