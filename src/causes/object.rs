//! References to objects in messages and commands.

use crate::objects::ObjectName;
use serde_json::Value;
use std::fmt;

/// The kind and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// The kind in the spelling of the API: `PersistentVolumeClaim`.
    pub kind: &'static str,
    /// The short name that `kubectl` accepts: `pvc`.
    pub short: &'static str,
    /// The namespace and name of the object.
    pub name: ObjectName,
}

impl Object {
    /// References a PersistentVolumeClaim.
    pub fn claim(namespace: &str, name: &str) -> Self {
        Self::new("PersistentVolumeClaim", "pvc", namespace, name)
    }

    /// References a PersistentVolume.
    pub fn volume(name: &str) -> Self {
        Self::new("PersistentVolume", "pv", "", name)
    }

    /// References a Pod.
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::new("Pod", "pod", namespace, name)
    }

    /// References a StatefulSet.
    pub fn stateful_set(namespace: &str, name: &str) -> Self {
        Self::new("StatefulSet", "statefulset", namespace, name)
    }

    /// References a Namespace.
    pub fn namespace(name: &str) -> Self {
        Self::new("Namespace", "namespace", "", name)
    }

    /// References an object of any other kind.
    pub fn new(kind: &'static str, short: &'static str, namespace: &str, name: &str) -> Self {
        let name = ObjectName::new(namespace, name);
        Self { kind, short, name }
    }

    /// Returns the namespace of the object; empty for a cluster-scoped object.
    pub fn namespace_name(&self) -> &str {
        &self.name.namespace
    }

    /// Returns the `kubectl describe` command for the object, which also lists its Events.
    pub fn describe(&self) -> String {
        format!("kubectl describe {}", self.arguments())
    }

    /// Returns the arguments that select the object in a `kubectl` command.
    pub fn arguments(&self) -> String {
        let Self { short, name, .. } = self;
        if name.namespace.is_empty() {
            format!("{short} {}", name.name)
        } else {
            format!("{short} {} -n {}", name.name, name.namespace)
        }
    }

    /// Returns the command that applies a JSON patch to the object. Texts in the patch cannot end the
    /// quoted argument: JSON has another form of the quotation mark.
    pub fn patch(&self, operations: &Value) -> String {
        let operations = operations.to_string().replace('\'', "\\u0027");
        format!(
            "kubectl patch {} --type=json -p '{operations}'",
            self.arguments()
        )
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}
