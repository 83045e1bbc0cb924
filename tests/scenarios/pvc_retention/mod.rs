//! The claims of StatefulSets, on a control plane whose built-in retention is off. Rows STS-* of
//! upstream's tables.

mod admission;
mod coexistence;
mod drain;
mod faults;
mod foreign_owners;
mod late_reviews;
mod leaks;
mod marks;
mod rows;
mod stories;
pub mod support;
mod templates;
