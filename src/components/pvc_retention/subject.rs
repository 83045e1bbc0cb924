//! What the reconciler looks at.

use crate::{cluster::WorkQueue, objects::ObjectName};
use std::fmt;

/// A set, in two parts, each with a key of its own in the queue.
///
/// The policy of a set may have to wait, for a LIST of pods and for a turn among other writes. If the set is scaled up again
/// meanwhile, its condemned claims must not wait for that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Claims of this set that have to be kept: references and marks removed. It takes one read of the set.
    Rescue(ObjectName),
    /// Everything else that the policy of this set wants.
    Policy(ObjectName),
}

impl Subject {
    /// Both parts of this set.
    pub fn both(set: &ObjectName) -> [Self; 2] {
        [Self::Rescue(set.clone()), Self::Policy(set.clone())]
    }
}

impl WorkQueue<Subject> {
    /// Puts both parts of this set in line.
    pub fn add_set(&self, set: &ObjectName) {
        self.add_urgent(Subject::Rescue(set.clone()));
        self.add(Subject::Policy(set.clone()));
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
