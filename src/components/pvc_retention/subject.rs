//! The keys of the work queue of pvc-retention: two for each StatefulSet, one to keep claims and
//! one for all other changes.

use crate::{cluster::WorkQueue, objects::ObjectName};
use std::fmt;

/// A key of the work queue: one part of the work on a StatefulSet. Each StatefulSet has two parts.
///
/// The policy part may have to wait for a LIST of pods and for other writes. If the StatefulSet is
/// scaled up again meanwhile, the writes that keep the claims of its scaled-down pods must not
/// wait for the policy part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Keeps claims of this StatefulSet: removes owner references and markers that would cause
    /// their deletion. This part reads StatefulSets live, but needs no LIST of pods.
    Rescue(ObjectName),
    /// Writes all other changes that the policy of this StatefulSet requires, and publishes Events
    /// about its claims.
    Policy(ObjectName),
}

impl Subject {
    /// The keys of both parts of this StatefulSet.
    pub fn both(set: &ObjectName) -> [Self; 2] {
        [Self::Rescue(set.clone()), Self::Policy(set.clone())]
    }
}

impl WorkQueue<Subject> {
    /// Enqueues both parts of this StatefulSet.
    pub fn add_set(&self, set: &ObjectName) {
        self.add_urgent(Subject::Rescue(set.clone()));
        self.add(Subject::Policy(set.clone()));
    }

    /// Enqueues those parts of this StatefulSet whose last reconcile failed, without their backoff.
    pub fn retry_set(&self, set: &ObjectName) {
        Subject::both(set).iter().for_each(|part| self.retry(part));
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rescue(set) => write!(f, "{set} (rescue)"),
            Self::Policy(set) => write!(f, "{set}"),
        }
    }
}
