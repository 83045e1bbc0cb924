//! PersistentVolumeClaims, as the rules read them.

use super::keys::BIND_COMPLETED;
pub use super::keys::{AWAITING_POD, SCALED_WITH};
use super::{
    CompactText, Kind, MAX_TEXT, ManagedBy, ObjectName, Tracked,
    claim_trash::ClaimTrash,
    expiry::ClaimExpiry,
    finalizers::{self, Finalizers},
    metadata, owner_references, quantity,
    rare_fields::{AwaitingPod, Rare, RareFields},
    reuse::waiting_in,
    stateful_set::{ordinal, readings},
    unused::{self, Unused},
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;
use std::collections::BTreeMap;

/// No volume has this name.
const NO_VOLUME: &str = "/";

/// The phase of a claim. Bound is the last field that the volume binder of kube-controller-manager
/// writes on a claim, after the volume name and `bind-completed`.
///
/// Source: `bind` in `pkg/controller/volume/persistentvolume/pv_controller.go` of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimPhase {
    /// The claim waits for a volume. Also if the phase is not set yet.
    Pending,
    /// The claim is bound to a volume.
    Bound,
    /// The claim has lost its volume.
    Lost,
}

/// The fields of a claim that the rules read.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Distinguishes the claim from an earlier or later one of the same name.
    pub uid: CompactText,
    /// The `resourceVersion` at which the claim was read.
    pub resource_version: CompactText,
    /// Whether `deletionTimestamp` is set. It is never unset again.
    pub deleting: bool,
    /// The finalizers of the claim, in the order of the object.
    pub finalizers: Finalizers,
    /// Whether the claim has any annotations. If not, a patch that adds one must add the map, too.
    pub annotated: bool,
    /// The volume that the claim names; empty if it names none. A text of more than [`MAX_TEXT`]
    /// bytes, which users may write, is kept as `/`.
    pub volume_name: CompactText,
    /// Whether the claim has the annotation [`BIND_COMPLETED`], which the volume binder writes.
    pub bind_completed: bool,
    /// The `status.phase`.
    pub phase: ClaimPhase,
    /// The condition `Unused`, if the claim has it.
    pub unused: Option<Unused>,
    /// The fields that few claims have.
    pub rare: Rare,
}

impl Claim {
    /// Returns the uid of the owner that is the claim's controller.
    pub fn controller(&self) -> Option<&str> {
        owner_references::controller(&self.rare.owners).map(|owner| owner.uid.as_str())
    }

    /// Returns whether the claim needs its protection finalizer or is a candidate for its removal.
    pub fn finalizer_state(&self) -> finalizers::FinalizerState {
        finalizers::finalizer_state(self.deleting, &self.finalizers, finalizers::PVC_PROTECTION)
    }

    /// Returns whether the claim waits for a volume, which it may name: it is Pending and is not
    /// being deleted.
    pub fn awaits_volume(&self) -> bool {
        self.phase == ClaimPhase::Pending && !self.deleting
    }

    /// Returns whether Volume Warden wrote the condition `Unused` and may remove it. It stays on a
    /// claim that is being deleted, as in Kubernetes.
    pub fn removable_unused(&self) -> bool {
        !self.deleting && self.unused.is_some_and(|condition| condition.own)
    }

    /// Returns whether the claim is completely bound to the volume of this name, as far as the
    /// claim shows it.
    pub fn is_bound_to(&self, volume: &str) -> bool {
        self.bind_completed && self.volume_name == *volume
    }
}

/// The fields of a claim that are parsed.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = PersistentVolumeClaim)]
pub struct ClaimWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::with_unused_owners")]
    pub metadata: ObjectMeta,
    /// The `spec`, of which only the volume name is parsed.
    #[serde(default)]
    pub spec: ClaimSpec,
    /// The `status`, of which phase, capacity and conditions are parsed.
    #[serde(default)]
    pub status: ClaimStatus,
}

/// The fields of a claim's `spec` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSpec {
    /// The volume that the claim requests or is bound to.
    #[serde(default)]
    pub volume_name: Option<String>,
}

/// The fields of a claim's `status` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ClaimStatus {
    /// The phase of the claim: Pending, Bound or Lost.
    #[serde(default)]
    pub phase: Option<String>,
    /// The capacity of the claim's volume, as a map whose only key is `storage`.
    #[serde(default)]
    pub capacity: Option<BTreeMap<String, String>>,
    /// All conditions of the claim. Only the condition `Unused` is read from them.
    #[serde(default)]
    pub conditions: Option<Vec<unused::Condition>>,
}

impl ClaimStatus {
    fn phase(&self) -> ClaimPhase {
        match self.phase.as_deref() {
            Some("Bound") => ClaimPhase::Bound,
            Some("Lost") => ClaimPhase::Lost,
            _ => ClaimPhase::Pending,
        }
    }
}

impl From<ClaimWire> for Claim {
    fn from(wire: ClaimWire) -> Self {
        let metadata = wire.metadata;
        let phase = wire.status.phase();
        let conditions = wire.status.conditions.unwrap_or_default();
        let owners = metadata.managed_fields.unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        let ambiguous = readings(name).nth(1).is_some();
        let managed_by = metadata.labels.as_ref().and_then(ManagedBy::of);
        let labels = metadata.labels.filter(|_| ambiguous).unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        let created = metadata.creation_timestamp.as_ref();
        let created = created.map_or(0, |time| time.0.as_second());
        let deleted = metadata.deletion_timestamp.as_ref();
        let awaiting = annotations.get(AWAITING_POD);
        let unused = Unused::find(&conditions, &owners, created);
        let capacity = wire.status.capacity.as_ref();
        let capacity = capacity.and_then(|all| all.get("storage"));
        let rare = RareFields {
            deleted: deleted.map_or(0, |time| time.0.as_second()),
            owners: metadata.owner_references.unwrap_or_default().into(),
            labels: labels
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            managed_by,
            scaled_with: annotations.get(SCALED_WITH).map(Into::into),
            awaiting_pod: awaiting.map(|mark| AwaitingPod {
                mark: mark.as_str().into(),
                created,
            }),
            trash: ClaimTrash::of(&annotations),
            expiry: ClaimExpiry::of(&annotations),
            unused_bytes: capacity
                .filter(|_| unused.is_some_and(|condition| condition.holds))
                .map_or(0.0, |text| quantity::of(text)),
        };
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default().into(),
            deleting: deleted.is_some(),
            finalizers: finalizers::shared(metadata.finalizers.unwrap_or_default()),
            annotated: !annotations.is_empty(),
            volume_name: kept_volume_name(wire.spec.volume_name.as_deref()),
            bind_completed: annotations.contains_key(BIND_COMPLETED),
            phase,
            unused,
            rare: rare.into(),
        }
    }
}

/// Returns the name of the volume that is kept. The API server does not limit it in a claim.
fn kept_volume_name(name: Option<&str>) -> CompactText {
    match name.unwrap_or_default() {
        long if long.len() > MAX_TEXT => NO_VOLUME.into(),
        name => name.into(),
    }
}

impl Tracked for Claim {
    type Wire = ClaimWire;
    const KIND: Kind = Kind::PersistentVolumeClaim;

    fn track(wire: ClaimWire) -> Option<Self> {
        Some(wire.into())
    }

    /// Returns the keys under which the store finds the claim: the part of its name before the
    /// ordinal, which all claims of one template of one StatefulSet have in common, and, while it
    /// waits for a volume, the key of its namespace ([`waiting_in`]).
    fn references(&self, name: &ObjectName) -> Vec<ObjectName> {
        let before = ordinal(&name.name).map(|(before, _)| before);
        let common = before.map(|before| ObjectName::new(name.namespace.clone(), before));
        let waits = self.awaits_volume().then(|| waiting_in(&name.namespace));
        common.into_iter().chain(waits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server accepts any text as the name of the volume, up to the size of an object.
    #[test]
    fn a_long_volume_name_is_not_kept() {
        let named = |name: &str| {
            Claim::from(ClaimWire {
                spec: serde_json::from_value(serde_json::json!({"volumeName": name}))
                    .expect("a spec"),
                ..ClaimWire::default()
            })
        };
        let longest = "v".repeat(MAX_TEXT);
        assert_eq!(&*named(&longest).volume_name.to_string(), longest);
        let long = named(&format!("{longest}v")).volume_name;
        assert_eq!(long, CompactText::from(NO_VOLUME));
        assert!(!crate::objects::is_possible_name(NO_VOLUME));
        assert_eq!(named("").volume_name, CompactText::from(""));
    }

    /// A cluster has many claims, and each is in memory.
    #[test]
    fn a_claim_stays_small() {
        assert!(size_of::<Claim>() <= 104, "{}", size_of::<Claim>());
    }
}
