//! A model of the Kubernetes API server in memory.
//!
//! It answers the same requests as a real API server: reads from one store with revisions, LISTs in
//! pages, watches, patches, preconditions, finalizers, graceful deletion and admission webhooks. It
//! has no threads, no clock and no random numbers of its own, so the same requests give the same
//! answers.
//!
//! What it does not have: authentication and authorization (the caller says who the user is),
//! server-side apply except of the conditions in a status, strategic merge patches (they are
//! carried out as merge patches), conversion between versions, and validation beyond what the rules
//! of Volume Warden can meet.

mod admission;
mod apply;
mod body;
mod create;
mod delete;
mod handle;
mod hooks;
mod json;
mod read;
mod resources;
mod review;
mod route;
mod selectors;
mod server;
mod status;
mod store;
mod strategy;
mod update;
mod watch;

pub use admission::{Admission, WebhookCall};
pub use body::Body;
pub use server::{ApiServer, Attempt, Policy, Settings, User, Version};
pub use store::Change;
