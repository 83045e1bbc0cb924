//! Leader election by a Lease.

mod held;
mod leadership;
mod lease;
mod lease_name;
mod lease_object;
mod observation;

pub use leadership::Leadership;
pub use lease::Elector;
pub use lease_name::LeaseName;
pub use lease_object::LeaseObject;
#[cfg(feature = "simulation")]
pub use observation::OBSERVED_SINCE;
pub use observation::Observation;
