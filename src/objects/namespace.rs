//! Namespaces, as what a storage backend has namesakes of.

use super::{Kind, Tracked, metadata};
use k8s_openapi::api::core::v1 as core;
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;

/// What is kept of a namespace. One that is being deleted still exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.uid`
    pub uid: Box<str>,
}

/// The part of a namespace that is read from the wire.
#[derive(Resource, Clone, Debug, Default, Deserialize)]
#[resource(inherit = core::Namespace)]
pub struct NamespaceWire {
    /// Standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
}

impl Tracked for Namespace {
    type Wire = NamespaceWire;
    const KIND: Kind = Kind::Namespace;

    /// Every namespace is kept, whatever its state: that it is not here must mean that it is not there.
    fn track(wire: NamespaceWire) -> Option<Self> {
        let uid = wire.metadata.uid.unwrap_or_default().into();
        Some(Self { uid })
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
        assert_eq!(namespace.expect("kept").uid, "1".into());
        let bare = Namespace::track(NamespaceWire::default());
        assert!(bare.is_some());
    }
}
