//! Where the data of a volume is.

use super::{Kind, Tracked, metadata, volume_location};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Where the data of a volume is, to find other volumes with the same data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeSource(Option<Box<str>>);

/// A volume with its complete `spec`, as it is parsed.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = PersistentVolume)]
pub struct WholeVolumeWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// The volume's specification.
    #[serde(default)]
    pub spec: Map<String, Value>,
}

impl Tracked for VolumeSource {
    type Wire = WholeVolumeWire;
    const KIND: Kind = Kind::PersistentVolume;

    fn track(wire: WholeVolumeWire) -> Option<Self> {
        Some(Self::of(&wire.spec))
    }
}

impl VolumeSource {
    /// Returns where the data of a volume with this `spec` is.
    pub fn of(spec: &Map<String, Value>) -> Self {
        Self(source(spec).map(Into::into))
    }

    /// Returns whether it is known where the data is.
    pub fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether both volumes are known to have the same data.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        self.is_known() && self == other
    }
}

/// Fields of a volume's `spec` that do not say where its data is.
const NO_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];
/// Sources that are paths of one node.
const OF_A_NODE: [&str; 2] = ["hostPath", "local"];
/// Fields of a source that do not say where the data is.
const HOW_TO_MOUNT: [&str; 4] = ["fsType", "readOnly", "secretRef", "type"];

/// Returns where the data of a volume with this `spec` is, as a text to compare; none if that is
/// not known. Two volumes with one source share their data.
pub(super) fn source(spec: &Map<String, Value>) -> Option<String> {
    if let Some(csi) = spec.get("csi") {
        return volume_location::of_csi(csi);
    }
    let mut sources = spec
        .iter()
        .filter(|(key, _)| !NO_SOURCE.contains(&key.as_str()));
    let (kind, fields) = sources.next()?;
    if sources.next().is_some() {
        return None;
    }
    let fields = fields.as_object()?;
    volume_location::of_migrated(kind, fields)
        .or_else(|| Some(other(kind, fields, spec.get("nodeAffinity"))))
}

/// The fields of an in-tree source that say where the data is.
fn other(kind: &str, fields: &Map<String, Value>, node: Option<&Value>) -> String {
    let mut fields = fields.clone();
    fields.retain(|key, _| !HOW_TO_MOUNT.contains(&key.as_str()));
    if OF_A_NODE.contains(&kind)
        && let Some(node) = node
    {
        fields.insert("nodeAffinity".to_owned(), node.clone());
    }
    format!("{kind} {}", Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn volumes_with_one_source_share_their_data() {
        let source = |spec: Value| super::source(spec.as_object().expect("a spec"));
        let csi = |more: Value| {
            let mut spec = json!({"csi": {"driver": "d", "volumeHandle": "h"}});
            json_patch::merge(&mut spec, &more);
            source(spec)
        };
        assert_eq!(csi(json!({"capacity": {"storage": "1Gi"}})), csi(json!({})));
        assert_eq!(csi(json!({"csi": {"readOnly": true}})), csi(json!({})));
        assert_ne!(csi(json!({"csi": {"volumeHandle": "i"}})), csi(json!({})));
        assert_ne!(csi(json!({"csi": {"driver": "e"}})), csi(json!({})));
        let path = |kind: &str, node: Value| {
            source(json!({kind: {"path": "/a", "server": "s"}, "nodeAffinity": node}))
        };
        assert_ne!(path("local", json!("a")), path("local", json!("b")));
        assert_eq!(path("nfs", json!("a")), path("nfs", json!("b")));
        let typed = source(json!({"hostPath": {"path": "/a", "type": "Directory"}}));
        assert_eq!(typed, source(json!({"hostPath": {"path": "/a"}})));
        for unknown in [
            json!({}),
            json!({"csi": {"driver": "d"}}),
            json!({"a": {}, "b": {}}),
        ] {
            assert_eq!(source(unknown.clone()), None, "{unknown}");
        }
    }
}
