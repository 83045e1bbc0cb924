//! `namespace-gc`: a namespace that is gone from Kubernetes is removed from the storage backend.
//!
//! **Rule.** When the watch tells that a namespace is gone, the one of that name in the [backend](crate::backend) is deleted as it was
//! listed. A namespace that is Terminating still exists. From time to time, and soon after this replica has come to lead, a
//! collection looks for the ends that nobody saw: what the backend has and Kubernetes does not is an orphan, and goes if nothing speaks
//! against it. Names that are protected never go.
//!
//! ```text
//! the end of a namespace ──► reconcile ──► list the backend ──────────────────────► remover: GET the namespace, then DELETE
//!        every hour ──► collection ──► list the backend, LIST Kubernetes, wait, LIST again ──►    │
//!                                                           what could not be removed ◄────────────┘
//!                                                           waits its turn and is reconciled
//! ```
//!
//! **Why it is safe.** The backend is listed first, Kubernetes after it, so what is made in both meanwhile is found in Kubernetes. A
//! list of Kubernetes that failed or is empty deletes nothing. Right before each deletion the namespace is read live, and whether this
//! replica still leads is asked. The backend itself refuses to delete what is not empty or was written since it was listed. Two that
//! delete at the same time do no harm by that. Where the storage is shared with others only names go that this cluster once had, by a
//! ConfigMap that is read before anything is listed; if it cannot be read, nothing goes.
//!
//! No finalizer is put on namespaces: a backend that is down would keep them from ever going.
//!
//! **Source.** The nsdelete controller of StorageOS' api-manager. What differs: only the leader collects; Kubernetes is read live; what
//! is not empty is tried on a schedule of its own, and can be seen in metrics and Events.

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
mod rule;
mod schedule;
mod seen;
#[cfg(test)]
mod tests;
mod waiting;

pub use assemble::NamespaceGc;
pub use backend_options::BackendOptions;
pub use collection::{Abort, Collection};
pub use collection_options::CollectionOptions;
pub use metered::Metered;
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
pub use rule::{Verdict, World, judge, judge_all};
pub use seen::{CONFIG_MAP, Seen, Unreadable};
pub use waiting::{Origin, Waiting, Waits};

/// The component's name, in the CLI and everywhere.
pub const NAME: &str = "namespace-gc";

/// What users are told of, as the reasons of Events.
pub mod reasons {
    /// A namespace was deleted from the backend.
    pub const DELETED: &str = "NamespaceDeleted";
    /// It stays for as long as something is in it.
    pub const NOT_EMPTY: &str = "NamespaceNotEmpty";
    /// It could not be deleted, and is tried again.
    pub const DELETE_FAILED: &str = "NamespaceDeleteFailed";
    /// There are more orphans than one collection takes.
    pub const CAPPED: &str = "TooManyOrphans";
}
