//! The interface of objects that are watched and listed.

use super::{
    Kind, ObjectName,
    protobuf::{DecodeError, Page},
};
use prost::bytes::Bytes;
use std::fmt::Debug;

/// Decodes one page of a LIST from Kubernetes' protobuf encoding.
pub type Decoder<Wire> = fn(&Bytes) -> Result<Page<Wire>, DecodeError>;

/// The compact form of an API object.
pub trait Tracked: Debug + Sized + Send + Sync + 'static {
    /// The fields of the API object that are parsed.
    type Wire: kube::Resource<DynamicType = (), Scope: Send>
        + Clone
        + Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static;

    /// The kind of the API object.
    const KIND: Kind;

    /// The label selector of the objects that are watched and listed; all objects if none.
    const LABELS: Option<&'static str> = None;

    /// The field selector of the objects that are watched and listed; all objects if none.
    const FIELDS: Option<&'static str> = None;

    /// Decodes a page of a live LIST that was requested in protobuf; if none, JSON is requested.
    const DECODER: Option<Decoder<Self::Wire>> = None;

    /// Returns the compact form, or none if no rule needs this object.
    fn track(wire: Self::Wire) -> Option<Self>;

    /// Returns the names to which this object refers, and other keys under which
    /// [`Store::referrers`](crate::cluster::Store::referrers) is to find it.
    fn references(&self, _name: &ObjectName) -> Vec<ObjectName> {
        Vec::new()
    }

    /// Returns whether the object refers to too many names to keep them, so that it counts as one
    /// that refers to every name in its namespace.
    fn may_refer_to_all(&self) -> bool {
        false
    }
}
