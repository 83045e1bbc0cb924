//! Leader election by a Lease.

mod leadership;
mod lease;
mod lease_object;

pub use leadership::Leadership;
pub use lease::{Elector, LeaseName};
pub use lease_object::LeaseObject;
