//! Scenarios of pvc-trash, in which the deletion of a claim can be undone. kube-controller-manager
//! provisions the volumes as real directories.

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
