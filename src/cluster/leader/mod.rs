//! Leader election by a Lease.

mod held;
mod leadership;
mod lease;
mod lease_name;
mod lease_object;
mod observation;

pub(crate) use held::LEASE_DURATION;
pub use leadership::Leadership;
pub use lease::Elector;
pub(crate) use lease::RENEW_DEADLINE;
pub use lease_name::LeaseName;
pub use lease_object::LeaseObject;
#[cfg(feature = "simulation")]
pub use observation::OBSERVED_SINCE;
pub use observation::Observation;
