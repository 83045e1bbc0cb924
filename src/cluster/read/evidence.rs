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
    ended: Instant,
}

impl<T> Evidence<T> {
    /// Wraps a value whose read began after `began` and ends now.
    pub(crate) fn new(value: T, began: Instant) -> Self {
        let ended = Instant::now();
        Self {
            value,
            began,
            ended,
        }
    }

    /// Returns when the read of this evidence began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Returns the proof for an action that relies on this evidence, valid until the evidence is
    /// older than `max_age`. After a read that took long, it is valid for a third of `max_age`:
    /// otherwise no action could follow a LIST that always takes longer than `max_age`.
    pub fn proof(&self, max_age: Duration) -> Proof {
        let until = (self.began + max_age).max(self.ended + max_age / 3);
        Proof { until }
    }

    /// Returns the proof for an action that relies on this evidence, valid until the evidence is
    /// older than `max_age`, also after a read that took long. For a read of one object, which does
    /// not always take longer.
    pub fn strict_proof(&self, max_age: Duration) -> Proof {
        let until = self.began + max_age;
        Proof { until }
    }

    /// Converts the value and keeps the age of the evidence.
    pub fn map<U>(self, see: impl FnOnce(T) -> U) -> Evidence<U> {
        Evidence {
            value: see(self.value),
            began: self.began,
            ended: self.ended,
        }
    }
}

/// Proves that a live read supports an action, until a certain time. Only a live read creates one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    until: Instant,
}

impl Proof {
    /// Returns the proof for an action that relies on both reads: the one that expires first.
    pub fn and(self, other: Self) -> Self {
        Self {
            until: self.until.min(other.until),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_AGE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn an_action_that_relies_on_two_reads_ends_with_the_first_proof() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(2));
        let [short, long] = [short, long].map(Proof::of_test);
        assert_eq!((long.and(short), short.and(long)), (short, short));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_takes_longer_than_its_evidence_lasts_supports_actions() {
        let began = Instant::now();
        for (seconds, lasts) in [(0, 30), (20, 30), (25, 35), (120, 130)] {
            tokio::time::sleep_until(began + Duration::from_secs(seconds)).await;
            let read = Evidence::new((), began);
            let until = began + Duration::from_secs(lasts);
            assert_eq!(read.proof(MAX_AGE), Proof { until }, "{seconds}");
            let strict = began + MAX_AGE;
            assert_eq!(
                read.strict_proof(MAX_AGE),
                Proof { until: strict },
                "{seconds}"
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(
                read.map(|()| 1).proof(MAX_AGE),
                Proof { until },
                "{seconds}"
            );
        }
    }
}
