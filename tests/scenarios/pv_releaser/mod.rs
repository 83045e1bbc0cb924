//! Volumes that outlive their claims and come back for the next ones. Cases PR-*.

mod asking;
mod association;
mod attachments;
mod birth;
mod crossing;
mod directories;
pub use directories::directory;
mod fault_fixture;
mod installations;
mod late;
mod namespace;
mod orphans;
mod races;
mod release;
mod stories;
pub mod support;
mod theft;
