//! Claims that pods request by annotations, on a real control plane: test cases DP-*.

mod admission;
mod bound;
mod broken;
mod claims;
mod fault_fixture;
mod gone;
mod hostile;
mod orphans;
mod permissions;
mod pods;
mod refusals;
mod replicas;
mod rows;
pub mod support;
mod templates;
