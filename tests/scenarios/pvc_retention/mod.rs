//! `pvc-retention` on a control plane whose built-in retention is disabled. The ids STS-* are test
//! cases of the specification.

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
