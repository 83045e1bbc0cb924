//! Watches of the API server: one feed for each kind, with its store.

mod activity;
mod excluded;
mod failure;
mod feed;
mod feeds;
mod outage;
mod pace;
mod progress;
mod recently_deleted;
mod referrers;
mod store;

pub use excluded::Excluded;
pub use feed::{Change, Feed};
pub use feeds::Feeds;
pub use recently_deleted::RecentlyDeleted;
pub use referrers::ReferrerIndex;
pub use store::Store;
