//! The copy of the object of a volume with a trash record and the original policy Delete: a
//! ConfigMap in Volume Warden's own namespace. If the object is removed by force, nothing else
//! says where its data is.

use super::keys::LAST_APPLIED;
use super::{
    CompactText, Kind, ObjectName, Tracked, Volume, config_map, metadata,
    trash::{OriginalPolicy, PURGE, TRASH, TrashRecord},
    volume::{ClaimRef, VolumeStatus, VolumeWire},
    volume_source::source,
};
pub use super::{keys::SAVED_VOLUME, volume_source::WholeVolumeWire};
use crate::hashing::Keyed;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, hash::BuildHasher};

/// Prefix of the names of copies. The uid of the volume follows.
pub const PREFIX: &str = "volume-warden-trash-";
/// The key of a copy that holds the manifest of the volume, as JSON.
pub const KEY: &str = "volume";
/// Maximum length of a manifest in a copy. Of a volume with a longer one, no copy is written.
pub const MAX_MANIFEST: usize = 64 * 1024;

/// Label selector of all copies.
pub const SELECTOR: &str = "volume-warden.dev/saved-volume=true";

/// What is kept of a copy in memory; its manifest is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedVolume {
    /// The uid of the ConfigMap, which every write tests.
    pub uid: CompactText,
    /// The `resourceVersion` of the ConfigMap, which every write tests.
    pub resource_version: CompactText,
    /// The uid of the volume when it was copied.
    pub volume_uid: CompactText,
    /// The name of the volume; empty if the manifest cannot be read.
    pub volume: Box<str>,
    /// What [`fingerprint`] returns for the manifest.
    pub fingerprint: Option<u64>,
    /// Where the data of the volume is, as a text to compare; none if that is not known.
    pub source: Option<Box<str>>,
}

/// The fields of a copy that are parsed.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = ConfigMap)]
pub struct SavedVolumeWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// The values of the ConfigMap.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
}

impl SavedVolumeWire {
    /// Returns the uid of the volume, from the name of the copy.
    pub fn volume_uid(&self) -> Option<&str> {
        let name = self.metadata.name.as_deref()?;
        name.strip_prefix(PREFIX)
    }

    /// Returns the volume in the copy; none if it cannot be read.
    pub fn volume(&self) -> Option<WholeVolume> {
        let text = self.data.get(KEY)?;
        let bounded = Some(text).filter(|text| text.len() <= MAX_MANIFEST)?;
        let wire: WholeVolumeWire = serde_json::from_str(bounded).ok()?;
        WholeVolume::track(wire)
    }
}

impl Tracked for SavedVolume {
    type Wire = SavedVolumeWire;
    const KIND: Kind = Kind::ConfigMap;
    const LABELS: Option<&'static str> = Some(SELECTOR);

    fn track(wire: SavedVolumeWire) -> Option<Self> {
        let volume_uid = wire.volume_uid()?.into();
        let whole = wire.volume();
        let metadata = wire.metadata;
        Some(Self {
            uid: metadata.uid.unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default().into(),
            volume_uid,
            volume: whole.as_ref().map_or("", |whole| whole.name()).into(),
            fingerprint: whole.as_ref().and_then(|whole| fingerprint(&whole.volume)),
            source: whole.and_then(|whole| whole.source().map(Into::into)),
        })
    }

    /// Returns the name of the volume, so that the copies of a volume are found by it.
    fn references(&self, _name: &ObjectName) -> Vec<ObjectName> {
        vec![ObjectName::cluster_scoped(&*self.volume)]
    }
}

/// A volume with its complete `spec`.
#[derive(Clone, Debug)]
pub struct WholeVolume {
    /// What the rules read.
    pub volume: Volume,
    metadata: ObjectMeta,
    spec: Map<String, Value>,
}

impl Tracked for WholeVolume {
    type Wire = WholeVolumeWire;
    const KIND: Kind = Kind::PersistentVolume;

    fn track(wire: WholeVolumeWire) -> Option<Self> {
        let WholeVolumeWire { metadata, spec } = wire;
        let read = VolumeWire {
            metadata: metadata.clone(),
            spec: serde_json::from_value(Value::Object(spec.clone())).ok()?,
            status: VolumeStatus::default(),
        };
        Some(Self {
            volume: read.into(),
            metadata,
            spec,
        })
    }
}

impl WholeVolume {
    /// Returns `metadata.name`; empty if it is absent.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns where the data of the volume is; none if that is not known.
    pub fn source(&self) -> Option<String> {
        source(&self.spec)
    }

    /// Returns the record by which the data can be restored once the claim is deleted; none unless
    /// it holds for the claim in `claimRef`, the original policy was Delete, and the present one is
    /// Retain.
    pub fn record(&self) -> Option<&TrashRecord> {
        saved_record(&self.volume).map(|(record, _)| record)
    }

    /// Returns the manifest by which the volume can be created again: without what the API server
    /// and `kubectl apply` write, without a request to purge, and with a window that has not begun.
    /// None if [`Self::record`] returns none.
    pub fn manifest(&self) -> Option<Value> {
        let (record, claim) = saved_record(&self.volume)?;
        let mut annotations = self.metadata.annotations.clone().unwrap_or_default();
        annotations.retain(|key, _| key != PURGE && key != LAST_APPLIED);
        annotations.insert(TRASH.to_owned(), unstarted(record).json());
        let mut spec = self.spec.clone();
        let mut reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": claim.uid,
            "namespace": &*claim.name.namespace, "name": &*claim.name.name,
        });
        // It shows in which order claims of one name were deleted.
        if let Some(version) = &claim.resource_version {
            reference["resourceVersion"] = json!(version.to_string());
        }
        spec.insert("claimRef".to_owned(), reference);
        Some(json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": self.metadata.name,
                "labels": self.metadata.labels,
                "annotations": annotations,
                "finalizers": self.metadata.finalizers,
            },
            "spec": spec,
        }))
    }
}

/// Returns the namespace and name of the ConfigMap that is the copy of the volume with this uid.
pub fn name_of(system_namespace: &str, volume_uid: impl std::fmt::Display) -> ObjectName {
    ObjectName::new(system_namespace, format!("{PREFIX}{volume_uid}"))
}

/// Returns a hash of the claim and the record of the volume, and of what the volume offers to a
/// claim: if the hash changes, the copy is out of date. A change of other fields, such as labels,
/// does not count. None if the volume is to have no copy. Hashes are comparable within this process
/// only.
pub fn fingerprint(volume: &Volume) -> Option<u64> {
    let (record, claim) = saved_record(volume)?;
    let trash = volume.trash.as_deref()?;
    let facts = (
        (&claim.name, &claim.uid, &volume.class),
        unstarted(record).json(),
        (&trash.capacity, &trash.access_modes),
        (&trash.mode, &trash.attributes_class),
    );
    Some(Keyed::default().hash_one(facts))
}

/// Returns the record and the claim of a volume that is to have a copy. A volume whose original
/// policy was Retain has none, because its administrator may delete it at any time.
fn saved_record(volume: &Volume) -> Option<(&TrashRecord, &ClaimRef)> {
    let record = volume.trash.as_deref()?.record.as_ref()?;
    let claim = volume.claimed_by()?;
    let holds = claim.uid == record.claim.uid && record.policy == OriginalPolicy::Delete;
    (holds && volume.retains()).then_some((record, claim))
}

/// Returns the record as it was before the claim was deleted: without times, reservations and
/// restores that failed.
fn unstarted(record: &TrashRecord) -> TrashRecord {
    TrashRecord {
        deleted_at: None,
        reserved_at: None,
        reserved_for: None,
        returned_at: None,
        unbindable: Vec::new(),
        ..record.clone()
    }
}

/// Returns the manifest of the ConfigMap that holds `manifest`, the volume as JSON.
pub fn config_map(name: &ObjectName, manifest: &str) -> Value {
    config_map::manifest(name, SAVED_VOLUME, KEY, manifest)
}

#[cfg(test)]
#[path = "saved_volume_tests.rs"]
mod tests;
