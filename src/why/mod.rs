//! `why`: explains what keeps a volume from being deleted or from being created, and what to do
//! next.
//!
//! ```text
//! watches of the server ──► held ─────────┐
//!                                         ├──► chain of causes ──► Event, metric, warning, tree in the terminal
//! live reads of the CLI ──► World ──► explain
//! ```
//!
//! **Rule.** An explanation is a pure function of the objects that were read. The function requests
//! objects from the [`World`]. Requested objects that were not read yet are read, and the function
//! runs again, until it requests no further object. So only the objects that matter are read,
//! mostly with three to five calls. An object that could not be read is reported, and nothing is
//! concluded from it.
//!
//! For all stuck objects of a namespace or the cluster, the same function is asked about each of
//! them, and the objects of a kind are read at once.
//!
//! **Limits.** `why` writes nothing to the cluster. It never suggests removing a finalizer manually
//! while the owner of the finalizer may be running.

mod answer;
mod ask;
mod explain;
mod read;
mod stuck;
#[cfg(test)]
mod tests;
mod world;

pub use crate::causes::{Cause, Code, Evidence, Next, Object};
pub use answer::{Answer, Conclusion};
pub use ask::{Explanation, ask};
pub use stuck::{Item, Stuck, Survey, Which, survey};
pub use world::{Look, Readable, Selection, World};
