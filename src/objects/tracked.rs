//! What an object has to offer to be watched and listed.

use super::{Kind, ObjectName};
use std::fmt::Debug;

/// What is kept of an API object.
pub trait Tracked: Debug + Sized + Send + Sync + 'static {
    /// The fields that are read from the wire.
    type Wire: kube::Resource<DynamicType = (), Scope: Send>
        + Clone
        + Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static;

    /// The kind of the API object.
    const KIND: Kind;

    /// The compact form, or nothing where no rule cares for this object.
    fn track(wire: Self::Wire) -> Option<Self>;

    /// Names this object refers to; [`Store::referrers`](crate::cluster::Store::referrers) answers the reverse question.
    fn references(&self, _name: &ObjectName) -> Vec<ObjectName> {
        Vec::new()
    }
}
