//! Reads claims, volumes, pods and what else refers to claims: workloads, snapshots and custom
//! resources.

mod custom;
mod list;
mod read;
mod references;

pub use custom::ReferencePath;
#[cfg(test)]
pub(crate) use custom::Referrer;
pub use read::{Listed, read, read_workloads};
pub use references::References;
