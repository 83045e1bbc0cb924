//! StorageClasses that configure what happens to their claims and volumes.

pub use super::keys::CONTROLLER_ID;
use super::{
    CompactText, Kind, Tracked,
    expiry::EXPIRE_UNUSED,
    metadata,
    rebind::REBIND,
    reuse::RELEASE_SCOPE,
    undelete_window::{UNDELETE_WINDOW, UNDELETE_WINDOW_MAX},
};
use k8s_openapi::api::storage::v1 as storage;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

/// The uid of a StorageClass and the annotations that the rules read. StorageClasses without any of
/// these annotations, or with [`UNDELETE_WINDOW_MAX`] only, are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClass {
    /// The uid, by which Events name the StorageClass.
    pub uid: CompactText,
    /// The installation that the class assigns its unlabelled volumes to, from [`CONTROLLER_ID`].
    pub controller_id: Option<Box<str>>,
    /// The undelete window that the class requests, or `off`, from [`UNDELETE_WINDOW`], unparsed.
    pub undelete_window: Option<Box<str>>,
    /// Up to what window a namespace can lengthen that of the class, from [`UNDELETE_WINDOW_MAX`],
    /// unparsed.
    pub undelete_window_max: Option<Box<str>>,
    /// Whether released volumes of the class are only for claims of the namespace of the deleted
    /// claim, or for those of any namespace, from [`RELEASE_SCOPE`], unparsed. A label of the
    /// volume takes precedence.
    pub release_scope: Option<Box<str>>,
    /// After what time without a pod `pvc-expiry` deletes claims of the class that have no such
    /// annotation themselves, from [`EXPIRE_UNUSED`], unparsed.
    pub expire_unused: Option<Box<str>>,
    /// Whether new claims get the volume of the deleted claim of their name, unless they request a
    /// new one, from [`REBIND`], unparsed.
    pub rebind: Option<Box<str>>,
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
        let uid = wire.metadata.uid.unwrap_or_default().into();
        let annotations = wire.metadata.annotations?;
        let value = |key| annotations.get(key).map(|value| value.as_str().into());
        let class = Self {
            uid,
            controller_id: value(CONTROLLER_ID),
            undelete_window: value(UNDELETE_WINDOW),
            undelete_window_max: value(UNDELETE_WINDOW_MAX),
            release_scope: value(RELEASE_SCOPE),
            expire_unused: value(EXPIRE_UNUSED),
            rebind: value(REBIND),
        };
        let has_any = class.controller_id.is_some()
            || class.undelete_window.is_some()
            || class.release_scope.is_some()
            || class.expire_unused.is_some()
            || class.rebind.is_some();
        has_any.then_some(class)
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
        assert_eq!(annotated.controller_id.as_deref(), Some("me"));
        let windows = json!({UNDELETE_WINDOW: "72h", UNDELETE_WINDOW_MAX: "90h"});
        let windowed = class(windows).expect("kept");
        let read = (windowed.undelete_window, windowed.undelete_window_max);
        assert_eq!(read, (Some("72h".into()), Some("90h".into())));
        let scoped = class(json!({RELEASE_SCOPE: "cluster"})).expect("kept");
        assert_eq!(scoped.release_scope, Some("cluster".into()));
        let expiring = class(json!({EXPIRE_UNUSED: "30d"})).expect("kept");
        assert_eq!(expiring.expire_unused.as_deref(), Some("30d"));
        let rebinding = class(json!({REBIND: "same-name"})).expect("kept");
        assert_eq!(rebinding.rebind.as_deref(), Some("same-name"));
    }
}
