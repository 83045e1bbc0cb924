//! StorageClasses, as what says that their volumes are to be released.

use super::{Kind, Tracked, metadata};
use k8s_openapi::api::storage::v1 as storage;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

/// Names the installation that releases the volumes of the class.
pub const CONTROLLER_ID: &str = "reclaimable-pv-releaser.kubernetes.io/controller-id";

/// What the rules read of a class. Classes without the annotation are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    /// The value of [`CONTROLLER_ID`].
    pub controller_id: Box<str>,
}

/// The part of a class that is read from the wire.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = storage::StorageClass)]
pub struct StorageClassWire {
    /// Standard metadata.
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
