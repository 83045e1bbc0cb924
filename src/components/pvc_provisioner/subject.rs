//! What the reconciler looks at.

use crate::objects::ObjectName;
use std::fmt;

/// See the module. Claims are looked at one by one, so that none of a pod's holds up another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The name of a claim, whether it exists or is asked for: to create it, to give it to its pod, to collect it.
    Claim(ObjectName),
    /// A pod with annotations: to say what is wrong with them.
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
