//! Volume Warden on a real control plane whose built-in volume protection is disabled. It is
//! installed from the shipped manifests, and has only the permissions that they grant. All
//! scenarios are in one binary, so that they share clusters.

// Tests start in the order of their names. Those of the first two modules wait longest.
mod absent;
mod authorization;
mod beside_built_in;
mod differential;
mod drain;
mod excluded;
mod faults;
mod namespace_gc;
mod pod_lists;
mod pv_protection;
mod pv_releaser;
mod pvc_expiry;
mod pvc_protection;
mod pvc_provisioner;
mod pvc_retention;
mod pvc_trash;
#[path = "../support/mod.rs"]
mod support;
mod trash_list;
mod unused;
mod why;
