//! The claims of StatefulSets, on a control plane whose own retention is switched off. Rows STS-* of upstream's tables.

mod admission;
mod coexistence;
mod drain;
mod faults;
mod hands;
mod histories;
mod leaks;
mod marks;
mod rows;
mod stories;
pub mod support;
