//! The API server's side: what is watched, what is read live, and the one place that writes.
//!
//! Nothing in here knows a component. A component registers what wakes it, asks for views, and hands actions to [`Apply`].

mod apply;
mod client;
mod feed;
mod feeds;
mod lease;
mod live;
mod reconciler;
mod store;
mod work_queue;

pub use apply::{Action, Applied, Apply, Target};
pub use client::{USER_AGENT, connect, within};
pub use feed::{Change, Feed};
pub use feeds::Feeds;
pub use lease::{Elector, Leadership, LeaseName};
pub use live::SharedList;
pub use reconciler::{Reconcile, Reconciler, Retry};
pub use store::Store;
pub use work_queue::WorkQueue;
