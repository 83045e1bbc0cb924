//! When a claim is evaluated again, and why not earlier.

use crate::cluster::Requeue;
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

/// Maximum delay until a claim that is not due yet is evaluated again. The resync every ten
/// minutes evaluates it earlier.
const LONGEST_WAIT: Duration = Duration::from_secs(6 * 3600);

pub(super) fn wait(now: Timestamp, until: Timestamp) -> Requeue {
    let wait = Duration::try_from(until.duration_since(now)).unwrap_or_default();
    // At least a second later, so that the clock has passed `until` when the claim is evaluated
    // again.
    let wait = wait.clamp(Duration::from_secs(1), LONGEST_WAIT);
    Requeue::After(
        wait,
        format!("waiting until {until} to decide again whether the claim expires"),
    )
}

pub(super) fn second_evaluation(delay: Duration) -> Requeue {
    let why = "waiting for a second live read, which must confirm that the claim expires before it \
        is deleted";
    Requeue::After(delay, why.to_owned())
}

pub(super) fn limited(delay: Duration) -> Requeue {
    let why = "the claim waits, because the limit --expiry-max-deletions of this hour is reached";
    Requeue::After(delay, why.to_owned())
}
