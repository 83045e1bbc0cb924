//! Decides when to warn about the expiry of a certificate. Renewal is due after two thirds of its
//! lifetime, so only a certificate that was not renewed is reported.

use super::config::Validity;
use time::OffsetDateTime;

const DAY: i64 = 24 * 60 * 60;
/// Days before the expiry at which a warning is due; 0 is the expiry itself.
const THRESHOLDS: [i64; 4] = [0, 7, 14, 30];
/// Time in seconds after the renewal is due in which no warning is given. It is at most a tenth of
/// the lifetime of the certificate.
const RENEWAL_GRACE: i64 = 60 * 60;

/// Returns the smallest threshold, in days before the expiry, that a certificate has passed
/// although its renewal was due earlier; none if no warning is due.
pub(super) fn threshold(validity: Validity, now: OffsetDateTime) -> Option<i64> {
    let (now, life) = (now.unix_timestamp(), validity.until - validity.from);
    let left = validity.until - now;
    let late = now >= validity.due() + RENEWAL_GRACE.min(life / 10);
    let mut passed = THRESHOLDS.into_iter().filter(|days| left <= days * DAY);
    passed.next().filter(|_| late)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the threshold that is reported for a certificate with this many seconds left.
    fn reported(life_days: i64, left: i64) -> Option<i64> {
        let until = 2_000_000_000;
        let from = until - life_days * DAY;
        let now = OffsetDateTime::from_unix_timestamp(until - left).expect("a time");
        threshold(Validity { from, until }, now)
    }

    #[test]
    fn one_report_at_each_threshold() {
        for (left, expected) in [
            (31 * DAY, None),
            (30 * DAY, Some(30)),
            (14 * DAY + 1, Some(30)),
            (14 * DAY, Some(14)),
            (7 * DAY + 1, Some(14)),
            (7 * DAY, Some(7)),
            (1, Some(7)),
            (0, Some(0)),
            (-DAY, Some(0)),
        ] {
            assert_eq!(reported(365, left), expected, "{left}");
        }
    }

    #[test]
    fn no_report_before_the_renewal_is_late() {
        assert_eq!(reported(90, 30 * DAY), None, "it is being renewed");
        assert_eq!(reported(90, 30 * DAY - RENEWAL_GRACE), Some(30));
        assert_eq!(
            reported(12, 5 * DAY),
            None,
            "young, with less than a threshold to live"
        );
        assert_eq!(reported(12, 3 * DAY), Some(7));
        assert_eq!(reported(1, DAY / 2), None);
        assert_eq!(reported(1, DAY / 4), Some(7));
    }
}
