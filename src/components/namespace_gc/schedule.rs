//! Calculates when the failed removal of a namespace is retried.

use super::reason::Reason;
use crate::cluster::doubling;
use std::{hash::BuildHasher, time::Duration};

/// First and longest delay of a retry for a namespace that is not empty: a user has to empty the
/// namespace first.
const NOT_EMPTY: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(900));
/// First and longest delay of a retry after other failures, whose cause may end at any moment.
const FAILED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// Maximum share of a delay that is subtracted at random, so that removals that failed together are
/// not retried together.
const JITTER: f64 = 0.2;

/// The delay of a retry after this number of failures for the same reason. `chance` is
/// a random number from 0 to 1.
pub fn delay(reason: Reason, failures: u32, chance: f64) -> Duration {
    let (first, longest) = match reason {
        Reason::NotEmpty => NOT_EMPTY,
        Reason::Changing | Reason::Unauthorized | Reason::Unavailable | Reason::Unconfirmed => {
            FAILED
        }
    };
    backoff(first, longest, failures, chance)
}

/// The delay after this number of failures: it doubles from the first to the longest delay.
/// `chance`, from 0 to 1, decides how much of the random share is subtracted.
pub fn backoff(first: Duration, longest: Duration, failures: u32, chance: f64) -> Duration {
    doubling(first, longest, failures).mul_f64(1.0 - JITTER * chance.clamp(0.0, 1.0))
}

/// A random number from 0 to 1.
pub fn chance() -> f64 {
    // A new `RandomState` has random keys, so its hash of any value is a random number.
    let random = std::collections::hash_map::RandomState::new().hash_one(0);
    f64::from((random >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(reason: Reason, chance: f64) -> Vec<u64> {
        let delays = (1..=12).map(|failures| delay(reason, failures, chance));
        delays.map(|delay| delay.as_secs()).collect()
    }

    /// NS-05: at most eight attempts in an hour.
    #[test]
    fn delays_grow_for_a_namespace_that_is_not_empty() {
        let delays = seconds(Reason::NotEmpty, 0.0);
        assert_eq!(delays[..7], [30, 60, 120, 240, 480, 900, 900]);
        let delays = seconds(Reason::NotEmpty, 1.0);
        assert_eq!(delays[..7], [24, 48, 96, 192, 384, 720, 720]);
        let hour = delays.iter().scan(0, |sum, delay| {
            *sum += delay;
            Some(*sum)
        });
        assert!(hour.take_while(|sum| *sum <= 3600).count() <= 8);
    }

    #[test]
    fn other_failures_are_retried_soon() {
        for reason in [
            Reason::Changing,
            Reason::Unauthorized,
            Reason::Unavailable,
            Reason::Unconfirmed,
        ] {
            let delays = seconds(reason, 0.0);
            assert_eq!(delays[..5], [1, 2, 4, 8, 16], "{reason:?}");
            assert_eq!(delays[11], 300, "{reason:?}");
        }
        let longest = delay(Reason::Unavailable, u32::MAX, 0.0);
        assert_eq!(longest, Duration::from_secs(300));
    }

    #[test]
    fn chance_stays_in_its_bounds_and_varies() {
        let chances: Vec<_> = (0..100).map(|_| chance()).collect();
        assert!(chances.iter().all(|chance| (0.0..=1.0).contains(chance)));
        assert!(
            chances.iter().any(|chance| *chance < 0.5)
                && chances.iter().any(|chance| *chance > 0.5)
        );
    }
}
