//! What a rule wants done to an object: data, and the guarded request that it becomes.

use crate::objects::{Kind, ObjectName, finalizers};
use json_patch::{PatchOperation, TestOperation, jsonptr::PointerBuf};
use kube::api::{DeleteParams, Preconditions};
use serde_json::json;

/// A change to an object, as a rule wants it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Append this finalizer.
    AddFinalizer(&'static str),
    /// Remove every occurrence of this finalizer.
    RemoveFinalizer(&'static str),
    /// Change owner references, and annotations of ours, by operations made for the target's `resource_version`.
    UpdateOwnerReferences(Vec<PatchOperation>),
    /// Delete the object.
    Delete,
}

impl Action {
    /// For the log and the metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AddFinalizer(_) => "AddFinalizer",
            Self::RemoveFinalizer(_) => "RemoveFinalizer",
            Self::UpdateOwnerReferences(_) => "UpdateOwnerReferences",
            Self::Delete => "Delete",
        }
    }

    /// The reason of the Warning event when the API server refuses it.
    pub(super) fn failure(&self) -> &'static str {
        match self {
            Self::AddFinalizer(_) => "FailedAddFinalizer",
            Self::RemoveFinalizer(_) => "FailedRemoveFinalizer",
            Self::UpdateOwnerReferences(_) => "FailedUpdateOwnerReferences",
            Self::Delete => "FailedDelete",
        }
    }
}

/// The object an action is for, as it was when the rule decided.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: &'a ObjectName,
    /// Always tested: the same name may belong to another object by now.
    pub uid: &'a str,
    /// Tested where the decision rests on this object alone, so that any change of it asks the rule again.
    pub resource_version: Option<&'a str>,
    /// The list that a finalizer is added to or removed from.
    pub finalizers: &'a [Box<str>],
}

impl Target<'_> {
    /// The patch that carries out the action, behind the tests that the object is still the one that was seen.
    pub(super) fn operations(&self, action: &Action) -> Vec<PatchOperation> {
        let mut operations = vec![test("uid", self.uid)];
        operations.extend(
            self.resource_version
                .map(|version| test("resourceVersion", version)),
        );
        match action {
            Action::AddFinalizer(finalizer) => {
                operations.push(finalizers::append(self.finalizers, finalizer))
            }
            Action::RemoveFinalizer(finalizer) => {
                operations.extend(finalizers::remove(self.finalizers, finalizer))
            }
            Action::UpdateOwnerReferences(changes) => operations.extend(changes.iter().cloned()),
            Action::Delete => {}
        }
        operations
    }

    /// The same for a deletion.
    pub(super) fn preconditions(&self) -> DeleteParams {
        DeleteParams::background().preconditions(Preconditions {
            uid: Some(self.uid.to_owned()),
            resource_version: self.resource_version.map(str::to_owned),
        })
    }
}

fn test(field: &str, value: &str) -> PatchOperation {
    PatchOperation::Test(TestOperation {
        path: PointerBuf::from_tokens(["metadata", field]),
        value: json!(value),
    })
}
