//! `why`: explains why a claim, volume, pod, StatefulSet or namespace is in its state, and what to
//! do next.
//!
//! ```text
//! watches of `volume-warden run` ─────────► causes ──────────────────► Event, metric, warning
//! reads of `volume-warden why` ─► LiveReads ─► explain, causes ──────► tree in the terminal
//! ```
//!
//! **Rule.** An explanation is a pure function of the objects that were read and the time. The
//! function requests objects from the [`LiveReads`]. [`explain_live()`] reads the requested objects
//! that were not read yet, and calls the function again, until it requests no further object. So
//! only the objects that matter are read, usually with two to four calls. An object that could not
//! be read is reported, and nothing is concluded from it.
//!
//! `why --stuck` ([`survey`]) calls the same function for each object of a namespace or the
//! cluster that may be stuck, and reads most kinds with a LIST of all their objects.
//!
//! **Limits.** `why` writes nothing to the cluster. It never suggests removing a finalizer manually
//! while the owner of the finalizer may be running.

mod answer;
mod explain;
mod live;
mod live_reads;
mod read;
mod stuck;
#[cfg(test)]
mod tests;

pub use crate::causes::{Cause, Code, Evidence, Next, Object};
pub use answer::{Answer, Conclusion};
pub use live::{Explanation, explain_live};
pub use live_reads::{LiveReads, Lookup, Readable, Selection};
pub use stuck::{Item, Stuck, Survey, Which, survey};
