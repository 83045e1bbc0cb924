//! Explains why objects are in their state. Each kind that `why` supports has its own file.
//!
//! The functions look objects up in the [`LiveReads`], which may not have read them yet. The result
//! of such a call is discarded, and the function is called again once they are read.

mod affinity;
mod attachments;
mod claim;
mod classes;
mod controllers;
mod events;
mod namespace;
mod nodes;
mod pod;
mod quote;
mod retention;
mod reuse;
mod stateful_set;
mod trash;
mod users;
mod volume;
mod volumes;
mod webhooks;
mod writers;

use super::{Answer, LiveReads, Lookup, Object};
use crate::causes::ObjectKind;
pub use claim::has_problem;
pub(super) use pod::may_lack_volumes;

/// Explains an object. Absent if it does not exist, or `why` does not explain its kind; unread if
/// it could not be read, or is not read yet.
pub fn explain(reads: &LiveReads, object: &Object) -> Lookup<Answer> {
    match object.kind {
        ObjectKind::PersistentVolumeClaim => claim::explain(reads, object),
        ObjectKind::PersistentVolume => volume::explain(reads, object),
        ObjectKind::Pod => pod::explain(reads, object),
        ObjectKind::StatefulSet => stateful_set::explain(reads, object),
        ObjectKind::Namespace => namespace::explain(reads, object),
        ObjectKind::Other { .. } => Lookup::Absent,
    }
}
