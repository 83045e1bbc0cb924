//! The record of a history: a hash that identifies what happened, and the transcript, a readable
//! log.

use crate::random::digest;
use parking_lot::Mutex;
use std::{fmt::Display, hash::Hash};

/// The record of one history.
#[derive(Default)]
pub struct Trace {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    hash: u64,
    entries: u64,
    /// The lines of the transcript; none if it is not kept.
    lines: Option<Vec<String>>,
}

impl Trace {
    /// Creates an empty record. The transcript costs time, so it is only kept if `transcript` is
    /// set.
    pub fn new(transcript: bool) -> Self {
        Self {
            inner: Mutex::new(Inner {
                lines: transcript.then(Vec::new),
                ..Inner::default()
            }),
        }
    }

    /// Records an event at this virtual millisecond. `identity` identifies it for the hash, which
    /// does not include the time.
    pub fn record(&self, at: u64, identity: impl Hash, line: impl FnOnce() -> String) {
        let mut inner = self.inner.lock();
        inner.hash = digest((inner.hash, identity));
        inner.entries += 1;
        inner.add_line(at, line);
    }

    /// Adds a line to the transcript only.
    pub fn add_line(&self, at: u64, line: impl FnOnce() -> String) {
        self.inner.lock().add_line(at, line);
    }

    /// Returns the hash of all recorded events in their order.
    pub fn hash(&self) -> u64 {
        self.inner.lock().hash
    }

    /// Returns the number of recorded events.
    pub fn entries(&self) -> u64 {
        self.inner.lock().entries
    }

    /// Takes the lines of the transcript.
    pub fn transcript(&self) -> Vec<String> {
        self.inner.lock().lines.take().unwrap_or_default()
    }
}

impl Inner {
    fn add_line(&mut self, at: u64, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(timed(at, line()));
        }
    }
}

/// A line of the transcript with its time in seconds.
pub fn timed(at: u64, line: impl Display) -> String {
    format!("{:>4}.{:03} {line}", at / 1000, at % 1000)
}
