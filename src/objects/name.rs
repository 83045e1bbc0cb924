//! The name of an object, which is cheap to clone and to hash.

use std::{fmt, sync::Arc};

/// Namespace and name of an object whose kind is known from the context. Cluster-scoped objects
/// have an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The `metadata.name`, unique among the objects of the kind in a namespace.
    pub name: Arc<str>,
}

impl ObjectName {
    /// Creates the name of an object in a namespace.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Creates the name of a cluster-scoped object.
    pub fn cluster_scoped(name: impl Into<Arc<str>>) -> Self {
        Self {
            // Without an allocation.
            namespace: Arc::default(),
            name: name.into(),
        }
    }

    /// Returns the name in `metadata`, or none if the API server has not generated it yet
    /// (`generateName` at admission).
    pub fn of(metadata: &kube::api::ObjectMeta) -> Option<Self> {
        let name = metadata.name.as_deref().filter(|name| !name.is_empty())?;
        Some(Self::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            name,
        ))
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Maximum length of most names in Kubernetes, in bytes.
const LONGEST: usize = 253;

/// Returns whether an object of most kinds, such as a claim, can have the name. The API server does
/// not check the names of claims in pods.
///
/// Source: `NameIsDNSSubdomain` in `pkg/apis/core/validation` of Kubernetes.
pub fn is_possible_name(name: &str) -> bool {
    name.len() <= LONGEST && is_subdomain(name)
}

/// Returns whether an object of most kinds can have this namespace, which is empty for a
/// cluster-scoped kind, and this name. An object can name another one by any text. In the path of a
/// request, a slash in that text selects a subresource, such as the proxy of a pod, and a question
/// mark begins a query.
pub fn can_exist(namespace: &str, name: &str) -> bool {
    is_possible_name(name) && (namespace.is_empty() || is_possible_name(namespace))
}

/// Returns whether the name is an RFC 1123 subdomain of any length, as Kubernetes requires for most
/// names. The API server does not check the names in owner references.
pub fn is_subdomain(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.split('.').all(|label| {
        let ends_well = !label.starts_with('-') && !label.ends_with('-');
        !label.is_empty() && ends_well && label.bytes().all(inside)
    })
}
