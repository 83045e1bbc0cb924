//! Volumes that are kept when their claims are deleted, and released for later claims. Test cases
//! PR-*.

mod association;
mod attachments;
mod claim_requests;
mod creation;
mod crossing;
mod directories;
pub use directories::directory;
mod downtime;
mod fault_fixture;
mod installations;
mod namespace;
mod orphans;
mod races;
mod release;
mod stories;
pub mod support;
mod theft;
