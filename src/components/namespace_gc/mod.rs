//! `namespace-gc`: deletes namespaces in the storage backend that do not exist in Kubernetes.
//!
//! **Rule.** When the watch reports that a namespace was deleted, the reconciler deletes the
//! namespace of that name in the [backend](crate::backend), as it was listed. A namespace that is
//! Terminating still exists. Periodically, and soon after this replica becomes the leader, a
//! collection finds the deletions that the watch missed: a namespace that the backend has and
//! Kubernetes does not is an orphan, and is deleted unless the scope, the grace period or the cap
//! excludes it. Protected names are never deleted.
//!
//! ```text
//! namespace deleted ──► reconciler ──► list the backend ──► remover: GET the namespace, DELETE
//! every hour ──► collection ──► list the backend, LIST Kubernetes,    ▲     │ failed
//!                               wait, LIST Kubernetes again ──────────┘     ▼
//!                                         reconciler ◄── wait for the next attempt
//! ```
//!
//! **Why it is safe.** The backend is listed before Kubernetes, so a namespace that is created in
//! both meanwhile is found in Kubernetes. If a list of Kubernetes failed or is empty, nothing is
//! deleted. Immediately before each deletion the namespace is read live, and the leadership is
//! checked. The backend itself refuses to delete a namespace that is not empty or was written
//! since it was listed. Two replicas that delete at the same time do no harm for that reason. With
//! `--gc-scope=seen`, for shared storage, a collection deletes only names that this cluster once
//! had. They are recorded in a ConfigMap, which the collection reads before it lists anything; if
//! it cannot be read, nothing is deleted. A retry reads it, too: once it has lost a name, the
//! removal of that namespace is not retried.
//!
//! Volume Warden sets no finalizer on namespaces: a backend that is down would block their
//! deletion.
//!
//! **Source.** The nsdelete controller of StorageOS' api-manager. Differences: only the leader
//! collects; Kubernetes is read live; a namespace that is not empty is retried on its own
//! schedule, and is visible in metrics and Events.

mod assemble;
mod backend_options;
mod collection;
mod collection_options;
mod metered;
mod metrics;
mod notices;
mod options;
mod periodic;
mod protect;
mod reason;
mod reconcile;
mod record;
mod remover;
mod report;
mod retry;
mod rule;
mod schedule;
mod seen;
#[cfg(test)]
mod tests;
mod waiting;

pub use assemble::NamespaceGc;
pub use backend_options::BackendOptions;
pub use collection::Collection;
pub use collection_options::CollectionOptions;
pub use metrics::GcMetrics;
pub use notices::Notices;
pub use options::{Options, Scope};
pub use periodic::Collector;
pub use protect::Glob;
pub use reason::Reason;
pub use reconcile::NamespaceGcReconciler;
pub use record::Recorder;
pub use remover::{Removal, Remover};
pub use report::{Report, Row};
pub use rule::{KnownNames, Verdict, judge_all};
pub use seen::{CONFIG_MAP, Recorded, Seen, Unreadable};
pub use waiting::Origin;

/// Name of the component namespace-gc in flags, logs and metrics.
pub const NAME: &str = "namespace-gc";

/// Reasons of the Events on Volume Warden's Lease.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// A namespace that Kubernetes does not have was deleted from the storage backend, or is
        /// not there any more after a deletion that failed.
        DELETED: Normal "Lease" = "NamespaceDeleted";
        /// Kubernetes has deleted the namespace, but it is not empty in the storage backend.
        /// Volume Warden deletes it there once it is empty.
        NOT_EMPTY: Warning "Lease" = "NamespaceNotEmpty";
        /// The namespace could not be deleted from the storage backend; Volume Warden retries.
        DELETE_FAILED: Warning "Lease" = "NamespaceDeleteFailed";
        /// A collection found more orphans than `--gc-max-deletions`, and leaves the rest to the
        /// next collection.
        CAPPED: Warning "Lease" = "TooManyOrphans";
        /// The watch reported that Kubernetes has deleted the namespace.
        RECENTLY_DELETED = "RecentlyDeleted";
        /// A collection found a namespace that only the storage backend has.
        ORPHAN = "Orphan";
    }
}
