//! Calls to the API server: the client, their time limits, and what their errors mean.

mod absence;
mod backoff;
mod bounded_pages;
mod clamped_times;
mod client;
mod fair_semaphore;
mod for_users;
mod latest_time;
mod path_secrets;
mod scope;
mod server_time;
#[cfg(test)]
pub(crate) mod test_server;

pub use absence::{existing, is_absent};
pub use backoff::doubling;
pub use clamped_times::with_clamped_times;
pub use client::{
    DEFAULT_CALL_TIMEOUT, UNREADABLE_ANSWER, connect, error_chain, error_message,
    is_denied_by_webhook, is_lasting_refusal, is_refused, within,
};
pub(crate) use fair_semaphore::{FairSemaphore, Permit};
pub use for_users::for_users;
pub use latest_time::LatestTime;
pub use path_secrets::{PATH_SECRET_DIGITS, for_log};
pub(crate) use scope::ApiOf;
pub use scope::{Scope, scoped};
pub use server_time::server_time;
