//! The kinds of object that the rules read or change.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Namespace, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::{StorageClass, VolumeAttachment},
};
use kube::api::ApiResource;

/// A kind of API object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `v1` Pod
    Pod,
    /// `v1` PersistentVolumeClaim
    PersistentVolumeClaim,
    /// `v1` PersistentVolume
    PersistentVolume,
    /// `apps/v1` StatefulSet
    StatefulSet,
    /// `storage.k8s.io/v1` StorageClass
    StorageClass,
    /// `storage.k8s.io/v1` VolumeAttachment
    VolumeAttachment,
    /// `v1` Namespace
    Namespace,
    /// `v1` ConfigMap
    ConfigMap,
    /// `v1` ConfigMap with the list of a namespace's trash, which has a watch of its own.
    TrashList,
}

impl Kind {
    /// Returns the group, version, kind and plural, as the API server spells them.
    pub fn api_resource(self) -> ApiResource {
        match self {
            Self::Pod => ApiResource::erase::<Pod>(&()),
            Self::PersistentVolumeClaim => ApiResource::erase::<PersistentVolumeClaim>(&()),
            Self::PersistentVolume => ApiResource::erase::<PersistentVolume>(&()),
            Self::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
            Self::StorageClass => ApiResource::erase::<StorageClass>(&()),
            Self::VolumeAttachment => ApiResource::erase::<VolumeAttachment>(&()),
            Self::Namespace => ApiResource::erase::<Namespace>(&()),
            Self::ConfigMap | Self::TrashList => ApiResource::erase::<ConfigMap>(&()),
        }
    }

    /// Returns the plural, as used in log lines and metric labels.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::PersistentVolumeClaim => "persistentvolumeclaims",
            Self::PersistentVolume => "persistentvolumes",
            Self::StatefulSet => "statefulsets",
            Self::StorageClass => "storageclasses",
            Self::VolumeAttachment => "volumeattachments",
            Self::Namespace => "namespaces",
            Self::ConfigMap => "configmaps",
            Self::TrashList => "trash-lists",
        }
    }
}
