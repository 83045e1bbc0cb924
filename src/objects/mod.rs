//! Pure questions about API objects, and the little that is kept of each.
//!
//! An API object is read from the wire into a *wire type* that knows only the fields some rule reads, and is turned at once
//! into a compact value. Twenty thousand pods are then a few megabytes, and a field no rule reads cannot influence one.

pub mod claim;
pub mod claim_requests;
pub mod finalizers;
mod kind;
pub mod managed_by;
mod metadata;
mod name;
pub mod namespace;
pub mod owner_references;
pub mod patch;
pub mod pod;
mod pod_wire;
pub mod stateful_set;
pub mod storage_class;
mod tracked;
pub mod volume;
pub mod volume_attachment;

pub use claim::Claim;
pub use claim_requests::ClaimRequests;
pub use kind::Kind;
pub use managed_by::{ControllerId, ManagedBy};
pub use name::ObjectName;
pub use namespace::Namespace;
pub use pod::Pod;
pub use stateful_set::StatefulSet;
pub use storage_class::StorageClass;
pub use tracked::Tracked;
pub use volume::Volume;
pub use volume_attachment::VolumeAttachment;
