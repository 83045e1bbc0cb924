//! API objects: the compact form in which each kind is kept, and pure functions of these forms.
//!
//! An API object is parsed into a *wire type*, which has only the fields that are needed, and is
//! converted at once into a compact value. So twenty thousand pods use only a few megabytes, and
//! fields that no rule reads cannot influence a rule.

mod any_object;
pub mod claim;
pub mod claim_metadata;
pub mod claim_requests;
pub mod claim_trash;
mod compact_text;
mod config_map;
pub mod deletion_order;
pub mod expiry;
mod field_owner;
pub mod finalizers;
pub mod fit;
mod identified;
pub mod keys;
mod kind;
mod listed_claim;
pub mod managed_by;
mod metadata;
mod name;
pub mod namespace;
pub mod owner_references;
pub mod patch;
pub mod pod;
mod pod_protobuf;
mod pod_wire;
pub mod protobuf;
pub(crate) mod quantity;
pub mod rare_fields;
pub mod rebind;
pub mod reuse;
pub mod saved_volume;
pub mod stateful_set;
pub mod storage_class;
#[cfg(test)]
pub(crate) mod test_volumes;
mod tracked;
pub mod trash;
pub mod trash_entry;
pub mod trash_list;
pub mod undelete_request;
pub mod undelete_window;
pub mod unused;
pub mod volume;
pub mod volume_attachment;
mod volume_location;
mod volume_source;
mod volume_wire;
pub mod workload;

pub use any_object::AnyObject;
pub use claim::Claim;
pub use claim_requests::ClaimRequests;
pub use compact_text::CompactText;
pub use field_owner::FIELD_MANAGER;
pub use identified::{Identified, Versioned};
pub use kind::Kind;
pub use listed_claim::ListedClaim;
pub use managed_by::{ControllerId, ManagedBy};
pub use metadata::{MAX_TEXT, nearest_time};
pub use name::{ObjectName, can_exist, is_possible_name, is_subdomain};
pub use namespace::Namespace;
pub use pod::Pod;
pub use saved_volume::{SavedVolume, WholeVolume};
pub use stateful_set::StatefulSet;
pub use storage_class::StorageClass;
pub use tracked::Tracked;
pub use trash_list::TrashList;
pub use unused::Unused;
pub use volume::Volume;
pub use volume_attachment::VolumeAttachment;
pub use volume_source::VolumeSource;
pub use workload::Workload;
