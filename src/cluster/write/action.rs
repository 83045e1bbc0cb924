//! A change to an object as data, and the guarded request that carries it out.

use super::lanes::Lane;
use super::reasons::{
    FAILED_ADD_FINALIZER, FAILED_DELETE, FAILED_REMOVE_FINALIZER, FAILED_UPDATE_CONDITION,
    FAILED_UPDATE_OWNER_REFERENCES,
};
use crate::cluster::read::Basis;
use crate::cluster::read::Proof;
use crate::objects::{CompactText, Kind, ObjectName, finalizers, patch::test};
use json_patch::PatchOperation;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DeleteParams, Preconditions};
use serde_json::{Value, json};
use tokio::time::Instant;

/// A change to an object, and how the writer carries it out. Only the constructors create one, so
/// a deletion always rests on a [`Proof`].
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// The name of the action in log lines and metrics.
    pub(super) name: &'static str,
    /// The change to the object.
    pub(super) mutation: Mutation,
    /// The lane, a group of writes with permits of its own, in which the write waits for its turn.
    pub(super) lane: Lane,
    /// For how long the decision holds.
    pub(super) basis: Basis,
    /// The Event for users if the API server refuses the action, unless an admission review waits
    /// for it.
    pub(super) on_refusal: OnRefusal,
}

/// What an action writes. Patch operations are valid for the version of the object that the rule
/// read.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation {
    /// Appends this finalizer.
    AddFinalizer(&'static str),
    /// Removes every occurrence of this finalizer.
    RemoveFinalizer(&'static str),
    /// Applies these patch operations.
    Patch(Vec<PatchOperation>),
    /// Removes owner references, or markers (annotations of Volume Warden), because of which the
    /// object would be deleted.
    Disown {
        /// The patch that is sent until the basis of the action expires. It may also add an owner
        /// reference or marker.
        fresh: Vec<PatchOperation>,
        /// The patch that is sent after the basis has expired. It only removes; see
        /// [`Target::deadline`].
        late: Vec<PatchOperation>,
    },
    /// Applies this status by server-side apply. Fields that an earlier apply set and this status
    /// does not contain are removed.
    ApplyStatus(Value),
    /// Deletes the object. Its uid and, if the target has it, its `resourceVersion` are
    /// preconditions of the request.
    Delete,
}

/// The Warning Event for an action that the API server refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnRefusal {
    /// The reason of the Event, in PascalCase. Reasons are never renamed.
    pub reason: &'static str,
    /// Whether the Event is also published when the API server failed (5xx), and not only when it
    /// refused the write (4xx except 429).
    pub outages: bool,
    /// What Volume Warden does after the refusal, as a clause.
    pub next: &'static str,
}

impl OnRefusal {
    /// Creates an Event that is published only for refusals (4xx except 429), and that says that
    /// the write is retried.
    pub const fn new(reason: &'static str) -> Self {
        Self {
            reason,
            outages: false,
            next: "and the write is retried",
        }
    }
}

impl Action {
    /// Creates an action that appends a finalizer to the list that the target has.
    pub const fn add_finalizer(finalizer: &'static str) -> Self {
        Self {
            name: "AddFinalizer",
            mutation: Mutation::AddFinalizer(finalizer),
            lane: Lane::Safety,
            basis: Basis::Object,
            on_refusal: OnRefusal::new(FAILED_ADD_FINALIZER),
        }
    }

    /// Creates an action that removes a finalizer, in the lane for bulk writes. If the object is
    /// being deleted and has no other finalizer, the API server then removes it.
    pub const fn remove_finalizer(finalizer: &'static str, basis: Basis) -> Self {
        Self {
            name: "RemoveFinalizer",
            mutation: Mutation::RemoveFinalizer(finalizer),
            lane: Lane::Bulk,
            basis,
            on_refusal: OnRefusal::new(FAILED_REMOVE_FINALIZER),
        }
    }

    /// Creates an action that applies patch operations, for changes that no other constructor
    /// describes.
    pub const fn patch(
        name: &'static str,
        lane: Lane,
        operations: Vec<PatchOperation>,
        basis: Basis,
        on_refusal: OnRefusal,
    ) -> Self {
        Self {
            name,
            mutation: Mutation::Patch(operations),
            lane,
            basis,
            on_refusal,
        }
    }

    /// Replaces the Event for users if the API server refuses the action.
    pub fn on_refusal(self, on_refusal: OnRefusal) -> Self {
        Self { on_refusal, ..self }
    }

    /// The change, the lane and the Event of the action.
    #[cfg(test)]
    pub(crate) fn parts(self) -> (Mutation, Lane, OnRefusal) {
        (self.mutation, self.lane, self.on_refusal)
    }

    /// Creates an action that deletes the object. `proof` is the live read that permits it.
    pub const fn delete(proof: Proof) -> Self {
        Self {
            name: "Delete",
            mutation: Mutation::Delete,
            lane: Lane::Bulk,
            basis: Basis::Proof(proof),
            on_refusal: OnRefusal::new(FAILED_DELETE),
        }
    }

    /// Creates an action that adds owner references or markers (annotations), because of which the
    /// garbage collector or Volume Warden may delete the object later. The same patch may remove
    /// others.
    pub const fn own(operations: Vec<PatchOperation>, basis: Basis) -> Self {
        Self {
            name: "UpdateOwnerReferences",
            mutation: Mutation::Patch(operations),
            lane: Lane::Ownership,
            basis,
            on_refusal: OnRefusal::new(FAILED_UPDATE_OWNER_REFERENCES),
        }
    }

    /// Returns the part of the action that only removes what Volume Warden added: a finalizer,
    /// owner references, markers or a condition. None for every other action, also for one of
    /// [`Self::patch`] that removes something.
    pub(crate) fn removal(self) -> Option<Self> {
        let mutation = match self.mutation {
            Mutation::Disown { late, .. } => Mutation::Disown {
                fresh: late.clone(),
                late,
            },
            Mutation::RemoveFinalizer(_) => self.mutation,
            // Applying an empty status removes the entries that Volume Warden applied before.
            Mutation::ApplyStatus(ref status) if *status == json!({}) => self.mutation,
            Mutation::AddFinalizer(_)
            | Mutation::Patch(_)
            | Mutation::ApplyStatus(_)
            | Mutation::Delete => return None,
        };
        Some(Self { mutation, ..self })
    }

    /// Creates an action that applies a status, in the lane for which no other write waits.
    pub const fn apply_status(status: Value, basis: Basis) -> Self {
        Self {
            name: "ApplyStatus",
            mutation: Mutation::ApplyStatus(status),
            lane: Lane::Conditions,
            basis,
            on_refusal: OnRefusal::new(FAILED_UPDATE_CONDITION),
        }
    }

    /// Creates an action that removes owner references or markers; see [`Mutation::Disown`].
    pub const fn disown(
        fresh: Vec<PatchOperation>,
        late: Vec<PatchOperation>,
        basis: Basis,
    ) -> Self {
        Self {
            name: "UpdateOwnerReferences",
            mutation: Mutation::Disown { fresh, late },
            lane: Lane::Safety,
            basis,
            on_refusal: OnRefusal::new(FAILED_UPDATE_OWNER_REFERENCES),
        }
    }
}

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
    /// needs the `resourceVersion`, and one with a [`Proof`] only the uid. A status that is
    /// applied needs only the uid, too: server-side apply changes no field of another field
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
                operations.extend(finalizers::remove(self.finalizers, finalizer))
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
    fn each_action_has_its_lane() {
        let (none, basis) = (Vec::new, Basis::Object);
        let Basis::Proof(proof) = proof() else {
            unreachable!("it is one");
        };
        for (action, lane) in [
            (Action::add_finalizer("f"), Lane::Safety),
            (Action::disown(none(), none(), basis), Lane::Safety),
            (Action::own(none(), basis), Lane::Ownership),
            (Action::remove_finalizer("f", basis), Lane::Bulk),
            (Action::delete(proof), Lane::Bulk),
        ] {
            assert_eq!(action.lane, lane, "{action:?}");
        }
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
