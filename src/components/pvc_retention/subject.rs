//! Keys of the work queue.

use crate::{cluster::WorkQueue, objects::ObjectName};
use std::fmt;

/// A set has two parts, each with its own key in the queue.
///
/// The policy part may have to wait for a LIST of pods and for other writes. If the set is scaled
/// up again meanwhile, its condemned claims must not wait for that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Keeps claims of this set: removes references and markers. Requires one read of the set.
    Rescue(ObjectName),
    /// All other changes that the policy of this set requires.
    Policy(ObjectName),
}

impl Subject {
    /// Both parts of this set.
    pub fn both(set: &ObjectName) -> [Self; 2] {
        [Self::Rescue(set.clone()), Self::Policy(set.clone())]
    }
}

impl WorkQueue<Subject> {
    /// Enqueues both parts of this set.
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
