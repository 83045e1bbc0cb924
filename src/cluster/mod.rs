//! Access to the API server: watches, live reads, leader election, the loop that reconciles, and
//! the only writer of what the components decide.
//!
//! This module depends on no component. A component registers its triggers, reads views of the
//! caches, and passes actions to [`Apply`].

mod api;
mod leader;
mod read;
mod run;
mod watch;
mod write;

#[cfg(test)]
pub(crate) use api::test_server;
pub use api::{
    DEFAULT_CALL_TIMEOUT, LatestTime, PATH_SECRET_DIGITS, connect, doubling, error_chain,
    error_message, existing, for_log, for_users, is_absent, is_lasting_refusal, is_refused, scoped,
    server_time, with_clamped_times, within,
};
#[cfg(feature = "simulation")]
pub use leader::OBSERVED_SINCE;
pub use leader::{Elector, Leadership, LeaseName, LeaseObject, Observation};
pub use read::{
    Access, Basis, Configuration, Configurations, Evidence, LiveGet, Proof, ServiceName,
    SharedList, StoredConfiguration, Tokens, Webhook, is_forbidden, read_all, read_page,
};
pub(crate) use run::{FIRST_RETRY, Pace};
pub use run::{
    HourlyLimit, Reconcile, ReconcileError, Reconciled, Reconciler, Requeue, Slot, WorkQueue,
    parse_hourly_limit,
};
pub use watch::{Change, Excluded, Feed, Feeds, RecentlyDeleted, ReferrerIndex, Store};
#[cfg(test)]
pub use write::Mutation;
#[cfg(feature = "simulation")]
pub use write::reasons;
pub(crate) use write::{ALWAYS, StillHolds, WRITE_TIMEOUT};
pub use write::{
    Action, Applied, Apply, Caller, Creation, EventContent, EventDeduplicator, Lane, NOTE_LIMIT,
    OnRefusal, Regarding, Target,
};
