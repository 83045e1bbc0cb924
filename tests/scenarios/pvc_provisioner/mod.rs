//! Claims that pods ask for by annotation, on a real control plane. Cases DP-*.

mod admission;
mod claims;
mod crashes;
mod orphans;
mod patient;
mod pods;
mod refusals;
mod replicas;
mod rights;
mod rows;
pub mod support;
mod templates;
