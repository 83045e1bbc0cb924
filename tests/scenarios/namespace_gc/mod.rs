//! Namespaces that Kubernetes no longer has are deleted from the storage backend, and no others.
//! Cases NS-*.

mod collections;
mod command;
mod crashes;
mod deleted_namespaces;
mod directories;
mod faults;
mod installed;
mod kubernetes;
mod leaders;
mod live_reads;
mod many;
mod reads_and_metrics;
pub mod support;
