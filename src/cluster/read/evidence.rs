//! The result of a live read, and for how long a destructive action may rely on it.

use std::time::Duration;
use tokio::time::Instant;

/// The result of a live read. Its age counts from the beginning of the read: the pages of a LIST
/// show the state at its first page.
#[derive(Clone, Debug)]
pub struct Evidence<T> {
    /// What was read, or what was derived from it by [`Self::map`].
    pub value: T,
    began: Instant,
}

impl<T> Evidence<T> {
    /// Wraps a value that was read entirely after `began`.
    pub(crate) fn new(value: T, began: Instant) -> Self {
        Self { value, began }
    }

    /// Returns when the read of this evidence began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Returns the proof for an action that relies on this evidence, valid until the evidence is
    /// older than `max_age`.
    pub fn proof(&self, max_age: Duration) -> Proof {
        let until = self.began + max_age;
        Proof { until }
    }

    /// Converts the value and keeps the age of the evidence.
    pub fn map<U>(self, see: impl FnOnce(T) -> U) -> Evidence<U> {
        Evidence::new(see(self.value), self.began)
    }
}

/// Proves that a live read supports an action, until a certain time. Only a live read creates one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    until: Instant,
}

#[cfg(test)]
impl Proof {
    /// Creates a proof without a read, for tests.
    pub(crate) fn of_test(max_age: Duration) -> Self {
        Evidence::new((), Instant::now()).proof(max_age)
    }
}

/// For how long the decision for an action holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Until its object changes: the write tests the `resourceVersion` of the object, so after any
    /// change the action fails and the rule decides again.
    Object,
    /// Until the proof expires, because the action relies on what a live read has shown.
    Proof(Proof),
}

impl Basis {
    /// Returns the time after which the action must not be sent, if there is one.
    pub(crate) fn until(self) -> Option<Instant> {
        match self {
            Self::Object => None,
            Self::Proof(proof) => Some(proof.until),
        }
    }
}
