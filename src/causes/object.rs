//! References to objects in messages and commands.

use crate::objects::ObjectName;
use serde_json::Value;
use std::fmt;

/// The kind of an object that a cause can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// `v1` PersistentVolumeClaim
    PersistentVolumeClaim,
    /// `v1` PersistentVolume
    PersistentVolume,
    /// `v1` Pod
    Pod,
    /// `apps/v1` StatefulSet
    StatefulSet,
    /// `v1` Namespace
    Namespace,
    /// A kind that causes name, and that `why` does not explain.
    Other {
        /// The kind in the spelling of the API: `StorageClass`.
        name: &'static str,
        /// The short name that `kubectl` accepts: `storageclass`.
        short: &'static str,
    },
}

impl ObjectKind {
    /// Returns the kind in the spelling of the API: `PersistentVolumeClaim`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::PersistentVolume => "PersistentVolume",
            Self::Pod => "Pod",
            Self::StatefulSet => "StatefulSet",
            Self::Namespace => "Namespace",
            Self::Other { name, .. } => name,
        }
    }

    /// Returns the short name that `kubectl` accepts: `pvc`.
    pub fn short(self) -> &'static str {
        match self {
            Self::PersistentVolumeClaim => "pvc",
            Self::PersistentVolume => "pv",
            Self::Pod => "pod",
            Self::StatefulSet => "statefulset",
            Self::Namespace => "namespace",
            Self::Other { short, .. } => short,
        }
    }
}

/// The kind and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The namespace and name; the namespace is empty for a cluster-scoped object.
    pub name: ObjectName,
}

impl Object {
    /// Refers to a PersistentVolumeClaim by its name; the claim need not exist.
    pub fn claim(namespace: &str, name: &str) -> Self {
        Self::of(ObjectKind::PersistentVolumeClaim, namespace, name)
    }

    /// Refers to a PersistentVolume by its name; the volume need not exist.
    pub fn volume(name: &str) -> Self {
        Self::of(ObjectKind::PersistentVolume, "", name)
    }

    /// Refers to a Pod by its name; the pod need not exist.
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::of(ObjectKind::Pod, namespace, name)
    }

    /// Refers to a StatefulSet by its name; the StatefulSet need not exist.
    pub fn stateful_set(namespace: &str, name: &str) -> Self {
        Self::of(ObjectKind::StatefulSet, namespace, name)
    }

    /// Refers to a Namespace by its name; the namespace need not exist.
    pub fn namespace(name: &str) -> Self {
        Self::of(ObjectKind::Namespace, "", name)
    }

    /// Refers to an object of any other kind.
    pub fn new(kind: &'static str, short: &'static str, namespace: &str, name: &str) -> Self {
        Self::of(ObjectKind::Other { name: kind, short }, namespace, name)
    }

    fn of(kind: ObjectKind, namespace: &str, name: &str) -> Self {
        let name = ObjectName::new(namespace, name);
        Self { kind, name }
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
        let (short, name) = (self.kind.short(), &self.name);
        if name.namespace.is_empty() {
            format!("{short} {}", name.name)
        } else {
            format!("{short} {} -n {}", name.name, name.namespace)
        }
    }

    /// Returns the `kubectl` command that applies a JSON patch to the object. A single quotation
    /// mark in the patch is written as `\u0027`, so that it does not end the argument of the
    /// shell.
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
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}
