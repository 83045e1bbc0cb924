//! The result of the leader election, for the other parts of the process.

use crate::awaited::Awaited;
use std::sync::Arc;
use tokio::time::Instant;

/// Whether this replica leads, so that its reconcilers may write.
#[derive(Clone, Debug)]
pub struct Leadership {
    until: Arc<Awaited<Option<Instant>>>,
}

impl Leadership {
    /// Creates a leadership that lasts until the instant in `until`, which the leader election
    /// moves forward at each renewal and clears when this replica no longer leads.
    pub(crate) fn until(until: Arc<Awaited<Option<Instant>>>) -> Self {
        Self { until }
    }

    /// Returns whether this replica leads at this moment. After a pause of the process, it returns
    /// false as soon as the renew deadline has passed, even before the leader election runs again.
    pub fn holds(&self) -> bool {
        self.until.get().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until this replica leads.
    pub async fn gained(&self) {
        let lasts = |until: Option<Instant>| until.is_some_and(|until| Instant::now() < until);
        self.until.wait_for(lasts).await;
    }

    /// Waits until this replica no longer leads, for example because another replica holds the
    /// Lease or the renew deadline has passed. It returns even if a late renewal succeeds a moment
    /// later: writes were skipped meanwhile, so the caller must reconcile all candidates again.
    pub async fn lost(&self) {
        loop {
            let changed = self.until.changed();
            let Some(until) = self.until.get() else {
                return;
            };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => return,
                () = changed => {}
            }
        }
    }
}
