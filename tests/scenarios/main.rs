//! Volume Warden on a real control plane whose own volume protection is switched off, installed by
//! the shipped manifests and under the rights that they give. One binary, so that its tests share
//! their clusters.

// Tests start in the order of their names. These two wait longest.
mod absent;
mod authorization;
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
