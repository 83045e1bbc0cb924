//! The keys of the work queue of pvc-provisioner.

use crate::objects::ObjectName;
use std::fmt;

/// A key of the work queue. Each claim has its own key, so that no claim of a pod delays another
/// claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A claim that exists or is requested, by its name. The reconciler carries out what the rule
    /// decides about the claim.
    Claim(ObjectName),
    /// A pod with claim annotations, by its name. The reconciler publishes Events about errors in
    /// the annotations and about requested claims that the pod does not own; it writes no claim.
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
