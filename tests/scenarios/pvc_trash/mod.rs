//! Claims whose deletion can be undone, with volumes that kube-controller-manager provisions in real
//! directories.

mod admission_policy;
pub mod copies;
mod csi;
mod defences;
mod enabling;
mod other_namespace;
mod purges;
mod rebinding;
mod repair;
mod restores;
pub mod support;
mod versions;
