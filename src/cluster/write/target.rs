//! The object that an action changes, and the guarded request that carries the action out.

use super::action::{Action, Mutation};
use super::lanes::Lane;
use crate::cluster::read::Basis;
use crate::objects::{CompactText, Kind, ObjectName, Versioned, finalizers, patch::test};
use json_patch::PatchOperation;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DeleteParams, Preconditions};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The object that an action changes, as it was when the rule decided.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The kind of the object, which selects the API endpoint.
    pub kind: Kind,
    /// The namespace and name of the object, for the URL of the request.
    pub name: &'a ObjectName,
    /// The uid of the object. Every write tests it, because the same name may belong to another
    /// object by now.
    pub uid: CompactText,
    /// The version of the object, if the write tests it. Then the write fails after any change of
    /// the object, and the rule decides again.
    pub resource_version: Option<CompactText>,
    /// The finalizers of the object, to which one is added or from which one is removed.
    pub finalizers: &'a [Box<str>],
}

impl<'a> Target<'a> {
    /// Creates a target of which only the kind, name and uid are known.
    pub fn new(kind: Kind, name: &'a ObjectName, uid: impl Into<CompactText>) -> Self {
        Self {
            kind,
            name,
            uid: uid.into(),
            resource_version: None,
            finalizers: &[],
        }
    }

    /// Creates a target for writes that test the uid and the `resourceVersion` of an object, as it
    /// was read.
    pub fn of<T: Versioned>(name: &'a ObjectName, object: &T) -> Self {
        Self {
            resource_version: Some(object.resource_version().clone()),
            ..Self::new(T::API_KIND, name, object.uid())
        }
    }

    /// Returns the time after which the action must not be sent; none for an action that may be
    /// sent late.
    ///
    /// A write that keeps data may be sent late, if its `resourceVersion` test shows that the
    /// object has not changed since the decision. If the decision was reversed meanwhile, no data
    /// is lost: the change that the write causes triggers the reconciler, which adds the reference
    /// or marker again, deletes the object, or removes the finalizer again. Until then the object
    /// is kept longer than needed; a claim without a marker whose pod no longer exists is kept
    /// permanently. Not sending the write is worse: while the reference remains, the garbage
    /// collector may delete an object that is needed.
    pub(crate) fn deadline(&self, action: &Action) -> Option<Instant> {
        let may_be_late = action.lane == Lane::Safety && self.resource_version.is_some();
        action.basis.until().filter(|_| !may_be_late)
    }

    /// Returns whether the target has what the action must test: an action with [`Basis::Object`]
    /// needs the `resourceVersion`, and one with a [`Proof`](Basis::Proof) only the uid. A status
    /// that is applied needs only the uid, too: server-side apply changes no field of another field
    /// manager, unless the status contains it.
    pub(crate) fn guards(&self, action: &Action) -> bool {
        let applies = matches!(action.mutation, Mutation::ApplyStatus(_));
        applies || action.basis != Basis::Object || self.resource_version.is_some()
    }

    /// Returns the patch that carries out the action. Its first operations test the uid and, if the
    /// target has it, the `resourceVersion`, so the patch fails if the object was replaced or
    /// changed since it was read.
    pub(crate) fn operations(&self, action: &Action) -> Vec<PatchOperation> {
        let mut operations = vec![test(&["uid"], json!(self.uid))];
        operations.extend(
            self.resource_version
                .as_ref()
                .map(|version| test(&["resourceVersion"], json!(version))),
        );
        match &action.mutation {
            Mutation::AddFinalizer(finalizer) => {
                operations.push(finalizers::append(self.finalizers, finalizer))
            }
            Mutation::RemoveFinalizer(finalizer) => {
                operations.extend(finalizers::remove_from_deleted(self.finalizers, finalizer))
            }
            Mutation::Disown { late, .. } if is_expired(action.basis) => {
                operations.extend(late.iter().cloned())
            }
            Mutation::Patch(changes) | Mutation::Disown { fresh: changes, .. } => {
                operations.extend(changes.iter().cloned())
            }
            Mutation::ApplyStatus(_) | Mutation::Delete => {}
        }
        operations
    }

    /// Returns the object to apply, which contains this status only. It has the uid and, if the
    /// target has it, the `resourceVersion`: the API server refuses it if the object was replaced
    /// or changed since it was read.
    pub(crate) fn with_status(&self, status: &Value) -> Value {
        let resource = self.kind.api_resource();
        let mut metadata = json!({"name": &*self.name.name, "uid": self.uid});
        if let Some(version) = &self.resource_version {
            metadata["resourceVersion"] = json!(version);
        }
        json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            "status": status,
        })
    }

    /// Returns the parameters of a deletion. Its preconditions are the uid and, if the target has
    /// it, the `resourceVersion`, so it fails if the object was replaced or changed since it was
    /// read.
    pub(crate) fn preconditions(&self) -> DeleteParams {
        DeleteParams::background().preconditions(Preconditions {
            uid: Some(self.uid.to_string()),
            resource_version: self.resource_version.as_ref().map(ToString::to_string),
        })
    }

    /// Returns the reference by which Events name the object.
    pub fn reference(&self) -> ObjectReference {
        let resource = self.kind.api_resource();
        ObjectReference {
            api_version: Some(resource.api_version),
            kind: Some(resource.kind),
            name: Some(self.name.name.to_string()),
            namespace: Some(self.name.namespace.to_string())
                .filter(|namespace| !namespace.is_empty()),
            uid: Some(self.uid.to_string()),
            ..ObjectReference::default()
        }
    }
}

fn is_expired(basis: Basis) -> bool {
    basis.until().is_some_and(|until| until < Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::read::Proof;
    use std::time::Duration;

    const AGE: Duration = Duration::from_secs(2);

    fn proof() -> Basis {
        Basis::Proof(Proof::of_test(AGE))
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_guarded_write_that_keeps_data_may_be_late() {
        let (name, now) = (ObjectName::new("ns", "claim"), Instant::now());
        let deadline = |resource_version, action: &Action| {
            let target = Target::new(Kind::PersistentVolumeClaim, &name, "uid");
            let target = Target {
                resource_version,
                ..target
            };
            target.deadline(action)
        };
        let keeps = Action::disown(Vec::new(), Vec::new(), proof());
        let destroys = Action::remove_finalizer("f", proof());
        let due = Some(now + AGE);
        assert_eq!(deadline(Some("1".into()), &keeps), None);
        assert_eq!(deadline(None, &keeps), due, "nothing guards it");
        assert_eq!(deadline(Some("1".into()), &destroys), due);
        let by_itself = Action::remove_finalizer("f", Basis::Object);
        assert_eq!(deadline(Some("1".into()), &by_itself), None);
    }

    #[test]
    fn what_rests_on_the_object_alone_needs_its_version() {
        let name = ObjectName::new("ns", "claim");
        let target = Target::new(Kind::PersistentVolumeClaim, &name, "uid");
        let action = Action::remove_finalizer("f", Basis::Object);
        assert!(!target.guards(&action));
        let resource_version = Some("1".into());
        let target = Target {
            resource_version,
            ..target
        };
        assert!(target.guards(&action));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_late_only_removes() {
        let name = ObjectName::new("ns", "claim");
        let target = Target::new(Kind::PersistentVolumeClaim, &name, "uid");
        let (both, removal) = (test(&["a"], json!("both")), test(&["a"], json!("removal")));
        let action = Action::disown(vec![both.clone()], vec![removal.clone()], proof());
        assert_eq!(target.operations(&action).last(), Some(&both));
        tokio::time::advance(AGE * 2).await;
        assert_eq!(target.operations(&action).last(), Some(&removal));
    }
}
