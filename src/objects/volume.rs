//! PersistentVolumes, as the rules read them.

pub use super::keys::BOUND_BY_CONTROLLER;
pub use super::volume_wire::{
    ClaimRefWire, DELETE, Phase, RETAIN, ReclaimPolicy, VolumeStatus, VolumeWire,
};
use super::{
    CompactText, Kind, ManagedBy, ObjectName, Tracked,
    finalizers::{self, Finalizers},
    fit::class_of,
    quantity,
    reuse::{Record, Reuse, parked_name, waiting_in},
    trash::{Trash, VolumePropertiesRef},
};

/// The fields of a volume that the rules read.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Distinguishes the volume from an earlier or later one of the same name.
    pub uid: CompactText,
    /// The `resourceVersion` at which the volume was read.
    pub resource_version: CompactText,
    /// Whether `deletionTimestamp` is set.
    pub deleting: bool,
    /// The `deletionTimestamp` in seconds since 1970; 0 if it is not set.
    pub deleted: i64,
    /// The finalizers of the volume, in the order of the object.
    pub finalizers: Finalizers,
    /// The `status.phase`, of which some values are not distinguished.
    pub phase: Phase,
    /// What happens to the volume and its data after its claim is deleted.
    pub reclaim_policy: ReclaimPolicy,
    /// The claim that the volume is or was bound to, or is reserved for.
    pub claim_ref: Option<ClaimRef>,
    /// The capacity in bytes; 0 if it cannot be read.
    pub capacity: f64,
    /// The name of the StorageClass; empty if there is none.
    pub class: Box<str>,
    /// Whether the annotation [`BOUND_BY_CONTROLLER`] is set.
    pub bound_by_controller: bool,
    /// Whether the volume has any labels. If not, a patch that adds one must add the map, too.
    pub labelled: bool,
    /// Whether the volume has any annotations. If not, a patch that adds one must add the map, too.
    pub annotated: bool,
    /// The labels that name the installation that manages the volume.
    pub managed_by: Option<Box<ManagedBy>>,
    /// What Volume Warden recorded to undo the deletion of the claim.
    pub trash: Option<Box<Trash>>,
    /// What decides which namespace may get the volume next; none without such a label or
    /// annotation.
    pub reuse: Option<Box<Reuse>>,
}

/// The `spec.claimRef` of a volume: a reservation if it has no uid, a present or past binding if it
/// has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// The namespace and name of the claim.
    pub name: ObjectName,
    /// The uid of the claim; empty for a reservation by name.
    pub uid: CompactText,
    /// The `resourceVersion` of the claim when the volume was bound to it, if it is set. Kubernetes
    /// does not use its value.
    pub resource_version: Option<CompactText>,
}

impl Volume {
    /// Returns whether the volume needs its protection finalizer or is a candidate for its removal.
    pub fn finalizer_state(&self) -> finalizers::FinalizerState {
        finalizers::finalizer_state(self.deleting, &self.finalizers, finalizers::PV_PROTECTION)
    }

    /// Returns whether the reclaim policy is Retain.
    pub fn retains(&self) -> bool {
        self.reclaim_policy == ReclaimPolicy::Retain
    }

    /// Returns the claim that the volume is or was bound to; none if it is only reserved for a
    /// claim.
    pub fn claimed_by(&self) -> Option<&ClaimRef> {
        self.claim_ref
            .as_ref()
            .filter(|claim| !claim.uid.is_empty())
    }

    /// Returns the namespace that the annotation `volume-warden.dev/claim-namespace` records: that
    /// of the claim that the volume has or had.
    pub fn record(&self) -> Option<&Record> {
        self.reuse.as_ref()?.record.as_ref()
    }

    /// Returns when Volume Warden reserved the volume, unparsed; none if it is not reserved, or not
    /// by Volume Warden.
    pub fn reserved_at(&self) -> Option<&str> {
        self.reuse.as_ref()?.reserved_at.as_deref()
    }

    /// Returns whether the annotation `volume-warden.dev/claim-namespace` records the namespace of
    /// the claim that the volume is or was bound to, and not that of an earlier claim.
    pub fn is_recorded(&self) -> bool {
        self.claimed_by()
            .zip(self.record())
            .is_some_and(|(claim, record)| record.is_of_claim(&claim.name.namespace, &claim.uid))
    }

    /// Returns whether the volume is parked: no claim can be bound to it until Volume Warden
    /// reserves it for a claim of the recorded namespace.
    pub fn is_parked(&self, system_namespace: &str) -> bool {
        let parked = || parked_name(system_namespace, &self.uid);
        self.waiting()
            .is_some_and(|(claim, _)| claim.name == parked())
    }

    /// Returns the claim that the volume is reserved for, if the annotation
    /// `volume-warden.dev/claim-namespace` records the namespace of that claim.
    pub fn reserved_for(&self) -> Option<&ClaimRef> {
        let (claim, record) = self.waiting()?;
        (claim.name.namespace == record.namespace).then_some(claim)
    }

    /// Returns the `claimRef` and the record of a volume that is reserved or parked and has a
    /// recorded namespace; none for any other volume.
    fn waiting(&self) -> Option<(&ClaimRef, &Record)> {
        let claim = self.claim_ref.as_ref().filter(|claim| claim.uid.is_empty());
        claim.zip(self.record())
    }
}

impl From<ClaimRefWire> for ClaimRef {
    fn from(wire: ClaimRefWire) -> Self {
        Self {
            name: ObjectName::new(wire.namespace, wire.name),
            uid: wire.uid.into(),
            resource_version: wire.resource_version.map(Into::into),
        }
    }
}

impl From<VolumeWire> for Volume {
    fn from(wire: VolumeWire) -> Self {
        let (metadata, spec) = (wire.metadata, wire.spec);
        let annotations = metadata.annotations.unwrap_or_default();
        let class = class_of(&annotations, spec.storage_class_name.as_ref());
        let labels = metadata.labels.as_ref();
        let properties = || {
            let reserved = spec.claim_ref.as_ref().is_some_and(|it| it.uid.is_empty());
            reserved.then(|| spec.properties(labels))
        };
        let reuse = Reuse::of(labels, &annotations, properties);
        let trash = Trash::of(&annotations, || VolumePropertiesRef {
            capacity: spec.storage(),
            access_modes: &spec.access_modes,
            mode: spec.volume_mode.as_deref(),
            attributes_class: spec.volume_attributes_class_name.as_deref(),
        });
        let capacity = spec.storage().map_or(0.0, quantity::of);
        let deleted = metadata.deletion_timestamp.as_ref();
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default().into(),
            deleting: deleted.is_some(),
            deleted: deleted.map_or(0, |time| time.0.as_second()),
            finalizers: finalizers::shared(metadata.finalizers.unwrap_or_default()),
            phase: wire.status.phase(),
            reclaim_policy: spec.reclaim_policy(),
            capacity,
            claim_ref: spec.claim_ref.map(Into::into),
            class: class.into(),
            bound_by_controller: annotations.contains_key(BOUND_BY_CONTROLLER),
            labelled: labels.is_some(),
            annotated: !annotations.is_empty(),
            trash,
            managed_by: labels.and_then(ManagedBy::of),
            reuse,
        }
    }
}

impl Tracked for Volume {
    type Wire = VolumeWire;
    const KIND: Kind = Kind::PersistentVolume;

    fn track(wire: VolumeWire) -> Option<Self> {
        Some(wire.into())
    }

    /// Returns the claim in `claimRef`, also of a Released volume, and the namespace whose claims
    /// a parked or reserved volume waits for.
    fn references(&self, _name: &ObjectName) -> Vec<ObjectName> {
        let claim = self.claim_ref.as_ref().map(|claim| claim.name.clone());
        let waits = self.waiting();
        let waits = waits.map(|(_, record)| waiting_in(&record.namespace));
        claim.into_iter().chain(waits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::keys::STORAGE_CLASS;
    use serde_json::{Value, json};

    fn volume(wire: Value) -> Volume {
        let wire: VolumeWire = serde_json::from_value(wire).expect("a volume");
        wire.into()
    }

    #[test]
    fn a_volume_is_read_from_the_wire() {
        let read = volume(json!({
            "metadata": {"name": "pv", "labels": {}, "annotations": {BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": "1", "resourceVersion": "7"},
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast"},
            "status": {"phase": "Released"},
        }));
        let claim = read.claimed_by().expect("a claim");
        assert_eq!(
            (claim.name.to_string(), claim.uid.clone()),
            ("ns/data".into(), "1".into())
        );
        assert_eq!(claim.resource_version, Some("7".into()));
        assert_eq!(
            (read.phase, read.reclaim_policy, &*read.class),
            (Phase::Released, ReclaimPolicy::Retain, "fast")
        );
        assert!(read.bound_by_controller && read.labelled && read.managed_by.is_none());
        let name = ObjectName::cluster_scoped("pv");
        assert_eq!(read.references(&name), [ObjectName::new("ns", "data")]);
    }

    #[test]
    fn a_bare_volume_is_nobodys() {
        let bare = volume(
            json!({"metadata": {"name": "pv"}, "spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        );
        assert_eq!(
            (bare.phase, bare.reclaim_policy, &*bare.class),
            (Phase::Other, ReclaimPolicy::Delete, "")
        );
        assert!(!bare.bound_by_controller && !bare.labelled && bare.claim_ref.is_none());
    }

    #[test]
    fn a_reservation_is_no_binding() {
        let reserved = volume(
            json!({"metadata": {}, "spec": {"claimRef": {"namespace": "ns", "name": "data"}}}),
        );
        assert!(reserved.claim_ref.is_some() && reserved.claimed_by().is_none());
    }

    #[test]
    fn the_older_way_to_name_the_class_comes_first() {
        let both = volume(
            json!({"metadata": {"annotations": {STORAGE_CLASS: "old"}}, "spec": {"storageClassName": "new"}}),
        );
        assert_eq!(&*both.class, "old");
    }
}
