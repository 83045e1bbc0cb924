//! A change to an object as data.

use super::applied::{Applied, judge};
use super::lanes::Lane;
use super::reasons::{
    FAILED_ADD_FINALIZER, FAILED_DELETE, FAILED_REMOVE_FINALIZER, FAILED_UPDATE_CONDITION,
    FAILED_UPDATE_OWNER_REFERENCES,
};
use crate::cluster::read::Basis;
use crate::cluster::read::Proof;
use json_patch::PatchOperation;
use serde_json::{Value, json};

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
    /// Whether the action fails if the object does not exist; see [`Self::of_existing`].
    pub(super) must_exist: bool,
}

/// What an action writes. Patch operations are valid for the version of the object that the rule
/// read.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation {
    /// Appends this finalizer.
    AddFinalizer(&'static str),
    /// Removes every occurrence of this finalizer from an object that is being deleted.
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
        /// [`Target::deadline`](super::Target::deadline).
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
            must_exist: false,
        }
    }

    /// Creates an action that removes a finalizer of an object that is being deleted, in the lane
    /// for bulk writes. If it has no other finalizer, the API server then removes the object.
    pub const fn remove_finalizer(finalizer: &'static str, basis: Basis) -> Self {
        Self {
            name: "RemoveFinalizer",
            mutation: Mutation::RemoveFinalizer(finalizer),
            lane: Lane::Bulk,
            basis,
            on_refusal: OnRefusal::new(FAILED_REMOVE_FINALIZER),
            must_exist: false,
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
            must_exist: false,
        }
    }

    /// Replaces the Event for users if the API server refuses the action.
    pub fn on_refusal(self, on_refusal: OnRefusal) -> Self {
        Self { on_refusal, ..self }
    }

    /// Makes the outcome [`Applied::Stale`] if the object does not exist. Without this, the
    /// outcome is [`Applied::Done`], as for an action that only removes something.
    pub fn of_existing(self) -> Self {
        Self {
            must_exist: true,
            ..self
        }
    }

    /// Derives the outcome of the action from the API server's answer.
    pub(super) fn outcome(&self, written: kube::Result<()>) -> Applied {
        let absent = written.is_err();
        match judge(written) {
            Applied::Done if absent && self.must_exist => Applied::Stale,
            applied => applied,
        }
    }

    /// Replaces the name of the action in log lines and metrics.
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
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
            must_exist: false,
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
            must_exist: false,
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
            must_exist: false,
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
            must_exist: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_action_may_require_that_the_object_exists() {
        let absent = || {
            let status = kube::core::Status::failure("gone", "NotFound").with_code(404);
            Err(kube::Error::Api(Box::new(status)))
        };
        let action = Action::add_finalizer("f");
        assert_eq!(action.outcome(absent()).label(), "Done");
        let action = action.of_existing();
        assert_eq!(action.outcome(absent()).label(), "Stale");
        assert_eq!(action.outcome(Ok(())).label(), "Done");
    }

    #[test]
    fn each_action_has_its_lane() {
        let (none, basis) = (Vec::new, Basis::Object);
        let proof = Proof::of_test(Duration::from_secs(2));
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
}
