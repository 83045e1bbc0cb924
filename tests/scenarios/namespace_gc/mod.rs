//! Namespaces that Kubernetes no longer has go from the storage backend, and no others. Cases NS-*.

mod asking;
mod collections;
mod command;
mod crashes;
mod departures;
mod directories;
mod doubts;
mod faults;
mod installed;
mod kubernetes;
mod leaders;
mod many;
pub mod support;
