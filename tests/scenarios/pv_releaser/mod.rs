//! Volumes that outlive their claims and come back for the next ones. Cases PR-*.

mod asking;
mod association;
mod attachments;
mod birth;
mod crashes;
mod directories;
mod installations;
mod late;
mod orphans;
mod patient;
mod races;
mod release;
mod stories;
pub mod support;
