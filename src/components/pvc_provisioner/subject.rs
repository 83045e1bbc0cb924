//! The keys of the reconciler's queue.

use crate::objects::ObjectName;
use std::fmt;

/// A key of the reconciler. Claims are reconciled one by one, so that no claim of a pod delays
/// another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The name of a claim that exists or is requested: to create it, to set its owner, to delete
    /// it.
    Claim(ObjectName),
    /// A pod with annotations: to publish errors in them.
    Pod(ObjectName),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(name) => write!(f, "claim {name}"),
            Self::Pod(name) => write!(f, "pod {name}"),
        }
    }
}
