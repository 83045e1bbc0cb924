//! Storage systems with namespaces of their own, one for each Kubernetes namespace, which they
//! never delete.
//!
//! A [`Backend`] lists its namespaces and deletes an empty one. `namespace_gc` decides whether a
//! namespace may be deleted.
//!
//! # A third backend
//! It is one file that implements [`Backend`]; `cli/backend.rs` gives it a name and its flags.
//! What it has to keep:
//!
//! * A namespace that holds anything is never deleted: emptiness is decided by the storage, in the
//!   same step as the deletion.
//! * Only what was listed is deleted. If the namespace was replaced or written since, the answer
//!   is [`Deletion::Stale`], or [`Deletion::NotFound`] where it is gone.
//! * What cannot be read is an error, never an empty list: an empty list says that there is
//!   nothing to do.
//! * What lacks an id or a name is left out of the list and counted in [`Listing::skipped`].
//! * Every call ends after a bounded time, whatever the storage does, and nothing panics.
//! * A call whose future is dropped may have happened or not. The same holds for one that ended in
//!   a [`Failure`].
//!
//! `contract.rs` says the same as tests: describe in an implementation of its `Stage` how a
//! namespace is made, filled and replaced in the new storage, and hand it to `contract!`.

mod answer;
#[cfg(test)]
mod contract;
pub mod directory;
mod name;
mod sentence;
pub mod storageos;

pub use answer::{Deletion, Denial, Failure, Outage, Outcome};
pub use directory::Directory;
pub use sentence::Sentence;
pub use storageos::StorageOs;

use futures::future::BoxFuture;
use std::{fmt, time::SystemTime};
use tokio_util::sync::CancellationToken;

/// Storage with namespaces.
pub trait Backend: fmt::Debug + Send + Sync {
    /// As the command line and the log call it.
    fn name(&self) -> &'static str;

    /// Lists all existing namespaces.
    ///
    /// # Errors
    /// When the list would be incomplete.
    fn list(&self) -> BoxFuture<'_, Result<Listing, Failure>>;

    /// Deletes a namespace, if it is empty and still what it was when it was listed.
    ///
    /// # Errors
    /// When it is not known what became of the request; it may have been carried out.
    fn delete<'a>(&'a self, namespace: &'a Listed) -> BoxFuture<'a, Result<Deletion, Failure>>;

    /// Whether the backend is ready for requests. One that needs no preparation always is.
    fn is_ready(&self) -> bool {
        true
    }

    /// Runs the background work of the backend until `stop`; to be called once. Everything works
    /// without it, but more slowly.
    fn tend(&self, stop: CancellationToken) -> BoxFuture<'_, ()> {
        Box::pin(async move { stop.cancelled().await })
    }
}

/// The namespaces of a backend at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In the backend's own order.
    pub namespaces: Vec<Listed>,
    /// Number of entries that cannot be identified: they have no id or no name, or an invalid one.
    pub skipped: usize,
}

/// A namespace as the backend knew it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What the backend knows it by. Opaque; never empty.
    pub id: String,
    /// That of the namespace in Kubernetes. Never empty.
    pub name: String,
    /// Opaque version: differs after each write, and from a later namespace of the same name.
    pub version: String,
    /// Time of creation or last change by the clock of the backend, if known. May lie in the
    /// future.
    pub since: Option<SystemTime>,
}
