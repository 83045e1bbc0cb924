//! Kubernetes namespaces, as the rules read them.

use super::{Kind, Tracked, keys, metadata, undelete_window::UNDELETE_WINDOW};
use k8s_openapi::api::core::v1 as core;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

/// The label, and its value, by which a namespace opts out: Volume Warden then only removes what it
/// added to the objects of the namespace.
pub const EXCLUDE: (&str, &str) = (keys::EXCLUDE, "true");

/// The fields of a namespace that are kept. A namespace that is being deleted still exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The `metadata.uid`, which a recreated namespace does not share.
    pub uid: Box<str>,
    /// Whether `deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether the namespace has opted out by [`EXCLUDE`].
    pub excluded: bool,
    /// The undelete window that the namespace requests, from [`UNDELETE_WINDOW`], unparsed.
    pub undelete_window: Option<Box<str>>,
}

/// The fields of a namespace that are parsed.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = core::Namespace)]
pub struct NamespaceWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
}

/// Returns whether the namespace with this metadata has opted out by [`EXCLUDE`].
pub fn has_opted_out(metadata: &ObjectMeta) -> bool {
    let (label, value) = EXCLUDE;
    let labels = metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(label))
        .is_some_and(|found| found == value)
}

impl Tracked for Namespace {
    type Wire = NamespaceWire;
    const KIND: Kind = Kind::Namespace;

    /// Keeps every namespace in every state, because `namespace-gc` treats a namespace that is not
    /// in the store as deleted.
    fn track(wire: NamespaceWire) -> Option<Self> {
        let annotations = wire.metadata.annotations.as_ref();
        let window = annotations.and_then(|all| all.get(UNDELETE_WINDOW));
        Some(Self {
            undelete_window: window.map(|window| window.as_str().into()),
            deleting: wire.metadata.deletion_timestamp.is_some(),
            excluded: has_opted_out(&wire.metadata),
            uid: wire.metadata.uid.unwrap_or_default().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_that_is_being_deleted_is_kept_too() {
        let wire = json!({"metadata": {"name": "shop", "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"}});
        let namespace = Namespace::track(serde_json::from_value(wire).expect("a namespace"));
        let namespace = namespace.expect("kept");
        assert_eq!((&*namespace.uid, namespace.deleting), ("1", true));
        let bare = Namespace::track(NamespaceWire::default());
        assert!(bare.is_some());
    }
}
