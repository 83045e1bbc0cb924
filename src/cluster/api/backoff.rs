//! Exponential backoff: the delay before a failed call is tried again.

use std::time::Duration;

/// Returns the delay after this number of consecutive failures: `first` after one, doubled after
/// each further one, at most `longest`.
pub fn doubling(first: Duration, longest: Duration, failures: u32) -> Duration {
    // Twenty doublings reach every `longest`, and more could overflow.
    let doublings = failures.saturating_sub(1).min(20);
    first.saturating_mul(1 << doublings).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_longest() {
        let wait = |failures| {
            let (first, longest) = (Duration::from_secs(1), Duration::from_secs(300));
            doubling(first, longest, failures).as_secs()
        };
        assert_eq!([0, 1, 2, 3, 9, 10].map(wait), [1, 1, 2, 4, 256, 300]);
        assert_eq!(wait(u32::MAX), 300);
    }
}
