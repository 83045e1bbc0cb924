//! VolumeAttachments, as users of volumes.

use super::{Kind, ObjectName, Tracked, metadata};
use k8s_openapi::api::storage::v1 as storage;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

/// The fields of a VolumeAttachment that the rules read. As long as it exists, a node may still
/// write to the volume. Attachments of inline volumes, which are no API objects, are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeAttachment {
    /// The PersistentVolume that is attached or is to be attached.
    pub volume: ObjectName,
    /// The node that the volume is attached or is to be attached to.
    pub node: Box<str>,
}

/// The fields of a VolumeAttachment that are parsed.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = storage::VolumeAttachment)]
pub struct VolumeAttachmentWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// The specification of the attachment, which names the volume and the node.
    #[serde(default)]
    pub spec: AttachmentSpec,
}

/// The fields of a VolumeAttachment's `spec` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentSpec {
    /// The node that the volume is attached or is to be attached to.
    #[serde(default)]
    pub node_name: String,
    /// The volume that is attached or is to be attached.
    #[serde(default)]
    pub source: AttachmentSource,
}

/// The fields of `spec.source` that are parsed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentSource {
    /// The name of the PersistentVolume; absent for an inline volume of a pod.
    #[serde(default)]
    pub persistent_volume_name: Option<String>,
}

impl Tracked for VolumeAttachment {
    type Wire = VolumeAttachmentWire;
    const KIND: Kind = Kind::VolumeAttachment;

    fn track(wire: VolumeAttachmentWire) -> Option<Self> {
        let volume = wire.spec.source.persistent_volume_name?;
        let volume = ObjectName::cluster_scoped(volume);
        let node = wire.spec.node_name.into();
        Some(Self { volume, node })
    }

    fn references(&self, _name: &ObjectName) -> Vec<ObjectName> {
        vec![self.volume.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn attachment(source: Value) -> Option<VolumeAttachment> {
        let wire = json!({"metadata": {"name": "csi-1"}, "spec": {"attacher": "a", "nodeName": "n", "source": source}});
        VolumeAttachment::track(serde_json::from_value(wire).expect("an attachment"))
    }

    #[test]
    fn an_attachment_is_found_by_its_volume() {
        let name = ObjectName::cluster_scoped("csi-1");
        let kept = attachment(json!({"persistentVolumeName": "pv"})).expect("kept");
        assert_eq!(kept.references(&name), [ObjectName::cluster_scoped("pv")]);
        assert_eq!(&*kept.node, "n");
        assert_eq!(attachment(json!({"inlineVolumeSpec": {}})), None);
    }
}
