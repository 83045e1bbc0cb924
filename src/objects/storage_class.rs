//! StorageClasses that name the installation that releases their volumes.

use super::{Kind, Tracked, metadata};
use k8s_openapi::api::storage::v1 as storage;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

/// Annotation of a StorageClass that names the installation that releases its volumes.
pub const CONTROLLER_ID: &str = "reclaimable-pv-releaser.kubernetes.io/controller-id";

/// The fields of a StorageClass that the rules read. StorageClasses without the annotation
/// [`CONTROLLER_ID`] are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    /// The value of [`CONTROLLER_ID`].
    pub controller_id: Box<str>,
}

/// The fields of a StorageClass that are parsed.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = storage::StorageClass)]
pub struct StorageClassWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
}

impl Tracked for StorageClass {
    type Wire = StorageClassWire;
    const KIND: Kind = Kind::StorageClass;

    fn track(wire: StorageClassWire) -> Option<Self> {
        let annotations = wire.metadata.annotations?;
        let controller_id = annotations.get(CONTROLLER_ID)?.as_str().into();
        Some(Self { controller_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn class(annotations: Value) -> Option<StorageClass> {
        let wire =
            json!({"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "p"});
        StorageClass::track(serde_json::from_value(wire).expect("a class"))
    }

    #[test]
    fn only_annotated_classes_are_kept() {
        assert_eq!(class(json!(null)), None);
        assert_eq!(class(json!({"other": "me"})), None);
        let annotated = class(json!({CONTROLLER_ID: "me"})).expect("kept");
        assert_eq!(&*annotated.controller_id, "me");
    }
}
