//! A reference to an object in messages and commands.

use crate::objects::ObjectName;
use std::fmt;

/// The kind and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// As the API spells it.
    pub kind: &'static str,
    /// The short name that `kubectl` accepts: `pvc`.
    pub short: &'static str,
    /// Its namespace and name.
    pub name: ObjectName,
}

impl Object {
    /// A PersistentVolumeClaim.
    pub fn claim(namespace: &str, name: &str) -> Self {
        Self::new("PersistentVolumeClaim", "pvc", namespace, name)
    }

    /// A PersistentVolume.
    pub fn volume(name: &str) -> Self {
        Self::new("PersistentVolume", "pv", "", name)
    }

    /// A Pod.
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::new("Pod", "pod", namespace, name)
    }

    /// A StatefulSet.
    pub fn stateful_set(namespace: &str, name: &str) -> Self {
        Self::new("StatefulSet", "statefulset", namespace, name)
    }

    /// A Namespace.
    pub fn namespace(name: &str) -> Self {
        Self::new("Namespace", "namespace", "", name)
    }

    /// An object of any other kind.
    pub fn new(kind: &'static str, short: &'static str, namespace: &str, name: &str) -> Self {
        let name = ObjectName::new(namespace, name);
        Self { kind, short, name }
    }

    /// Its namespace, which is empty where its kind has none.
    pub fn namespace_name(&self) -> &str {
        &self.name.namespace
    }

    /// The command that shows it with its Events.
    pub fn describe(&self) -> String {
        format!("kubectl describe {}", self.arguments())
    }

    /// What follows the verb in a command of `kubectl`.
    pub fn arguments(&self) -> String {
        let Self { short, name, .. } = self;
        if name.namespace.is_empty() {
            format!("{short} {}", name.name)
        } else {
            format!("{short} {} -n {}", name.name, name.namespace)
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}
