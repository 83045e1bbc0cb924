//! The API server's side: what is watched, what is read live, and the one place that writes.
//!
//! Nothing in here knows a component. A component registers what wakes it, asks for views, and hands actions to [`Apply`].

mod absence;
mod access;
mod action;
mod apis;
mod applied;
mod apply;
mod backoff;
mod client;
mod create;
mod delete;
mod departed;
mod events;
mod fair_semaphore;
mod feed;
mod feeds;
mod heard;
mod lanes;
mod leadership;
mod lease;
mod lease_object;
mod live;
mod live_get;
mod pace;
mod reconciler;
mod store;
mod tokens;
mod told;
mod webhook_configurations;
mod work_queue;

pub use absence::{existing, is_absent};
pub use access::Access;
pub use action::{Action, Target};
pub use apis::scoped;
pub use applied::Applied;
pub use apply::Apply;
pub use backoff::doubling;
pub use client::{UNHURRIED, USER_AGENT, connect, within};
pub use create::{Caller, Creation};
pub use departed::Departed;
pub use events::{Announcement, Regarding};
pub use feed::{Change, Feed};
pub use feeds::Feeds;
pub use leadership::Leadership;
pub use lease::{Elector, LeaseName};
pub use lease_object::LeaseObject;
pub use live::{SharedList, read_all};
pub use live_get::LiveGet;
pub(crate) use pace::{FIRST_RETRY, Pace};
pub use reconciler::{Reconcile, Reconciler, Retry};
pub use store::Store;
pub use tokens::Tokens;
pub use told::Told;
pub use webhook_configurations::{Configuration, Configurations, Found, ServiceName, Webhook};
pub use work_queue::WorkQueue;
