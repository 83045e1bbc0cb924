//! Storage systems that have one namespace of their own for each Kubernetes namespace, and never
//! delete it.
//!
//! A [`Backend`] lists the namespaces of its storage and deletes an empty one. The component
//! `namespace_gc` decides whether a namespace may be deleted.
//!
//! # Adding a backend
//! A new backend is one file that implements [`Backend`];
//! `components/namespace_gc/backend_options.rs` gives it a name and its flags. It must satisfy
//! this contract:
//!
//! * A namespace that contains anything is never deleted: the storage checks that it is empty, in
//!   the same step as the deletion.
//! * A namespace is only deleted as it was listed. If it was replaced or written since, the result
//!   is [`Deletion::Stale`], [`Deletion::NotEmpty`], or [`Deletion::NotFound`] if it is gone.
//! * A list that cannot be read is an error, never an empty list, because an empty list means that
//!   there is nothing to delete.
//! * An entry without a valid id and name is not listed, and counted in [`Listing::skipped`].
//! * Every call ends within a time limit, whatever the storage does, and never panics.
//! * A call whose future is dropped, or that ends with a [`Failure`], may or may not have been
//!   carried out.
//!
//! `contract.rs` contains the contract as tests. To run them for a new backend, implement `Stage`,
//! which creates, fills and replaces namespaces in the storage, and pass it to `contract!`.

mod answer;
#[cfg(test)]
mod contract;
pub mod directory;
mod name;
mod sentence;
pub mod storageos;

pub use answer::{Deletion, Failure, Outcome};
pub use directory::Directory;
pub use sentence::Sentence;
pub use storageos::StorageOs;

use futures::future::BoxFuture;
use std::{fmt, time::SystemTime};
use tokio_util::sync::CancellationToken;

/// A storage system that has a namespace of its own for each Kubernetes namespace.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Returns the name of the backend on the command line and in log lines.
    fn name(&self) -> &'static str;

    /// Lists all existing namespaces.
    ///
    /// # Errors
    /// When the backend cannot return the complete list.
    fn list(&self) -> BoxFuture<'_, Result<Listing, Failure>>;

    /// Deletes a namespace of the storage, if it is empty and has not changed since it was listed.
    ///
    /// # Errors
    /// When the call fails; the deletion may have been carried out.
    fn delete<'a>(&'a self, namespace: &'a Listed) -> BoxFuture<'a, Result<Deletion, Failure>>;

    /// Returns whether the preparation of the backend, such as a login, is done; true for a
    /// backend without preparation.
    fn is_ready(&self) -> bool {
        true
    }

    /// Runs the background work of the backend until `stop`; called once. Without it, all other
    /// calls work, but more slowly.
    fn run_background(&self, stop: CancellationToken) -> BoxFuture<'_, ()> {
        Box::pin(async move { stop.cancelled().await })
    }
}

/// The namespaces of a storage backend at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The namespaces, in the backend's order.
    pub namespaces: Vec<Listed>,
    /// Number of entries that cannot be identified: they have no id or no name, or an invalid one.
    pub skipped: usize,
}

/// A namespace of a storage backend, as it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Identifies the namespace in the backend. Opaque; never empty.
    pub id: String,
    /// The name of the Kubernetes namespace that it belongs to. Never empty.
    pub name: String,
    /// The opaque version of the namespace: it changes with each write, and differs from that of a
    /// later namespace of the same name.
    pub version: String,
    /// When the namespace was created or last changed, by the clock of the backend, if known. It
    /// may lie in the future.
    pub since: Option<SystemTime>,
}
