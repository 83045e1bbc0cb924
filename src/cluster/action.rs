//! What a rule wants done to an object: data, and the guarded request that it becomes.

use crate::objects::{Kind, ObjectName, finalizers, patch::test};
use json_patch::PatchOperation;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DeleteParams, Preconditions};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// A change to an object, as a rule wants it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Append this finalizer.
    AddFinalizer(&'static str),
    /// Remove every occurrence of this finalizer.
    RemoveFinalizer(&'static str),
    /// Change owner references, and annotations of ours, by operations made for the target's `resource_version`.
    UpdateOwnerReferences(Vec<PatchOperation>),
    /// Label a volume as ours, by operations made for the target's `resource_version`.
    Associate(Vec<PatchOperation>),
    /// Free a volume of the claim that is gone, by operations made for the target's `resource_version`.
    Release(Vec<PatchOperation>),
    /// Take back what was written on the object, by operations made for the target's `resource_version`.
    TakeBack(Vec<PatchOperation>),
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
            Self::Associate(_) => "Associate",
            Self::Release(_) => "Release",
            Self::TakeBack(_) => "TakeBack",
            Self::Delete => "Delete",
        }
    }

    /// The reason of the Warning event when the API server refuses it.
    pub(super) fn failure(&self) -> &'static str {
        match self {
            Self::AddFinalizer(_) => "FailedAddFinalizer",
            Self::RemoveFinalizer(_) => "FailedRemoveFinalizer",
            Self::UpdateOwnerReferences(_) => "FailedUpdateOwnerReferences",
            Self::Associate(_) => "ErrAssociatePV",
            Self::Release(_) => "ErrReleasePV",
            Self::TakeBack(_) => "FailedTakeBack",
            Self::Delete => "FailedDelete",
        }
    }

    /// Whether users are told of an API server that fails, too, and not only of one that refuses: plumber-cd's controllers did.
    pub(super) fn tells_of_outages(&self) -> bool {
        matches!(self, Self::Associate(_) | Self::Release(_))
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
    /// When others were last known to be as the decision needs them, where it rests on others that can change back: it is not
    /// carried out long after, however many writes wait before it.
    pub decided: Option<Instant>,
}

/// So long after.
const FRESH: Duration = Duration::from_secs(2);

impl<'a> Target<'a> {
    /// The object of this kind, name and uid, of which nothing else is known.
    pub fn new(kind: Kind, name: &'a ObjectName, uid: &'a str) -> Self {
        Self {
            kind,
            name,
            uid,
            resource_version: None,
            finalizers: &[],
            decided: None,
        }
    }

    /// The decision is too old to be carried out.
    pub(super) fn is_stale(&self) -> bool {
        self.decided
            .is_some_and(|decided| decided.elapsed() > FRESH)
    }

    /// The patch that carries out the action, behind the tests that the object is still the one that was seen.
    pub(super) fn operations(&self, action: &Action) -> Vec<PatchOperation> {
        let mut operations = vec![test(&["uid"], json!(self.uid))];
        operations.extend(
            self.resource_version
                .map(|version| test(&["resourceVersion"], json!(version))),
        );
        match action {
            Action::AddFinalizer(finalizer) => {
                operations.push(finalizers::append(self.finalizers, finalizer))
            }
            Action::RemoveFinalizer(finalizer) => {
                operations.extend(finalizers::remove(self.finalizers, finalizer))
            }
            Action::UpdateOwnerReferences(changes)
            | Action::Associate(changes)
            | Action::Release(changes)
            | Action::TakeBack(changes) => operations.extend(changes.iter().cloned()),
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

    /// For events.
    pub fn reference(&self) -> ObjectReference {
        let resource = self.kind.api_resource();
        ObjectReference {
            api_version: Some(resource.api_version),
            kind: Some(resource.kind),
            name: Some(self.name.name.to_string()),
            namespace: Some(self.name.namespace.to_string())
                .filter(|namespace| !namespace.is_empty()),
            uid: Some(self.uid.to_owned()),
            ..ObjectReference::default()
        }
    }
}
