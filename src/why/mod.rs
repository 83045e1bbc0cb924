//! `why`: what keeps a volume, or keeps it from coming, and what to do next.
//!
//! ```text
//! watches of the server ──► held ─────────┐
//!                                         ├──► chain of causes ──► Event, metric, warning, tree in the terminal
//! live reads of the CLI ──► World ──► explain
//! ```
//!
//! **Rule.** An explanation is a pure function of what was read. It asks the [`World`] for what it needs; what was not read yet is
//! wished for, read, and the function runs again, until it wishes for nothing more. So only what matters is read, mostly three to five
//! calls. What could not be read is reported, and nothing is concluded from it.
//!
//! **What it never does.** It writes nothing. It never suggests removing a finalizer by hand while its owner may run.

mod answer;
mod ask;
mod explain;
mod read;
#[cfg(test)]
mod tests;
mod world;

pub use crate::causes::{Cause, Code, Evidence, Next, Object};
pub use answer::{Answer, Conclusion};
pub use ask::{Explanation, ask};
pub use world::{Look, Readable, Selection, World};
