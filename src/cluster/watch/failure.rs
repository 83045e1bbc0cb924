//! What a failure of a watch requires: a delay, a new LIST, and whether changes are lost.

use crate::{cluster::api::doubling, hashing::Keyed, objects::Kind};
use kube::runtime::watcher;
use std::{hash::BuildHasher, time::Duration};
use tokio::time::Instant;

/// Maximum duration of one watch request; the watch then continues with another one. Some load
/// balancers close a connection that was idle for four minutes.
pub(super) const WATCH_SECONDS: u32 = 200;
const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// The backoff of a watch is reset if its last failure is longer ago than this. It exceeds the
/// longest delay and the time of a list: otherwise, if the API server answered every watch with
/// 410, each list would reset the backoff.
const FORGIVEN_AFTER: Duration = Duration::from_secs(120);

/// Returns for how long before this error the watch may have missed changes, if nothing was
/// received for `silence`. Zero if the watch continues at its resourceVersion, or if `silence` is
/// not longer than one watch request: the connection may have worked until it was closed.
pub(super) fn missed_duration(error: &watcher::Error, silence: Duration) -> Duration {
    let expired = matches!(error, watcher::Error::WatchError(status) if status.code == 410);
    let longest = Duration::from_secs(WATCH_SECONDS.into());
    if (expired || needs_list(error)) && silence > longest {
        silence
    } else {
        Duration::ZERO
    }
}

/// Returns whether no watch can begin at the resourceVersion any more. kube's watcher lists again
/// if such an error ends a watch, but not if the API server answers the start of a watch with it. A
/// new watcher always begins with a list.
pub(super) fn needs_list(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else {
        return false;
    };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    // After a restore from a backup the API server may not know the resourceVersion yet.
    let unknown = causes.any(|cause| cause.reason == "ResourceVersionTooLarge");
    matches!(status.code, 400 | 410) || unknown
}

/// The delays between the attempts of one watch.
#[derive(Default)]
pub(super) struct Backoff {
    failures: u32,
    last: Option<Instant>,
}

impl Backoff {
    /// Returns the delay before the next attempt: a random part, between one half and all, of a
    /// delay that doubles with each failure, up to [`LONGEST_DELAY`]. So the watches of all kinds
    /// and replicas do not retry at the same time.
    pub(super) fn next(&mut self, kind: Kind) -> Duration {
        if self
            .last
            .is_some_and(|last| last.elapsed() > FORGIVEN_AFTER)
        {
            self.failures = 0;
        }
        self.last = Some(Instant::now());
        self.failures += 1;
        let longest = doubling(FIRST_DELAY, LONGEST_DELAY, self.failures);
        let random = Keyed::default().hash_one((kind.plural(), self.failures));
        let thousandths = 500 + u32::try_from(random % 501).unwrap_or_default();
        longest * thousandths / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn backoff_grows_and_is_forgiven() {
        let mut backoff = Backoff::default();
        for failures in 1..=10 {
            let longest = doubling(FIRST_DELAY, LONGEST_DELAY, failures);
            let delay = backoff.next(Kind::Pod);
            assert!(delay >= longest / 2 && delay <= longest, "{delay:?}");
        }
        tokio::time::advance(FORGIVEN_AFTER * 2).await;
        assert!(backoff.next(Kind::Pod) <= FIRST_DELAY);
    }
}
