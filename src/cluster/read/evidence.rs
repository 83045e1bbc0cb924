//! What a live read found, and for how long a destructive action may rest on it.

use std::time::Duration;
use tokio::time::Instant;

/// What a live read found. It is as old as the beginning of the read: the pages of a LIST show the
/// state at its first page.
#[derive(Clone, Debug)]
pub struct Evidence<T> {
    /// What was read.
    pub value: T,
    began: Instant,
}

impl<T> Evidence<T> {
    /// Read entirely after `began`.
    pub(crate) fn new(value: T, began: Instant) -> Self {
        Self { value, began }
    }

    /// When the read began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Lets an action rest on this until it is older than `max_age`.
    pub fn proof(&self, max_age: Duration) -> Proof {
        let until = self.began + max_age;
        Proof { until }
    }

    /// The same evidence, seen otherwise.
    pub fn map<U>(self, see: impl FnOnce(T) -> U) -> Evidence<U> {
        Evidence::new(see(self.value), self.began)
    }
}

/// That a live read supports an action, and until when. Only a live read creates one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    until: Instant,
}

#[cfg(test)]
impl Proof {
    /// A proof without a read.
    pub(crate) fn of_test(max_age: Duration) -> Self {
        Evidence::new((), Instant::now()).proof(max_age)
    }
}

/// What an action that destroys something rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// On the object alone: its `resourceVersion` is tested with the write, so any change of the
    /// object asks the rule again.
    Object,
    /// On other objects as well, which a live read has shown.
    Proof(Proof),
}

impl Basis {
    /// The action must not be sent afterwards, if there is such a time.
    pub(crate) fn until(self) -> Option<Instant> {
        match self {
            Self::Object => None,
            Self::Proof(proof) => Some(proof.until),
        }
    }
}
