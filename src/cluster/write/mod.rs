//! The writer of what the components decide, and of Events. Leader election, certificates, webhook
//! configurations and the list of seen namespaces have writes of their own.

mod action;
mod applied;
mod apply;
mod check;
mod create;
mod delete;
mod event_content;
mod event_dedup;
mod events;
mod lanes;
mod publish_event;
pub mod reasons;
mod send;
mod target;

#[cfg(test)]
pub use action::Mutation;
pub use action::{Action, OnRefusal};
pub use applied::Applied;
pub use apply::Apply;
pub(crate) use apply::{ALWAYS, StillHolds, WRITE_TIMEOUT};
pub use create::{Caller, Creation};
pub use event_content::{EventContent, NOTE_LIMIT, Regarding};
pub use event_dedup::EventDeduplicator;
pub use lanes::Lane;
pub use target::Target;
