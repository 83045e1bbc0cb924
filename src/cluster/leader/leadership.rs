//! The result of the leader election, for the other parts of the process.

use crate::awaited::Awaited;
use std::sync::Arc;
use tokio::time::Instant;

/// Whether this replica leads and may therefore write.
#[derive(Clone, Debug)]
pub struct Leadership {
    until: Arc<Awaited<Option<Instant>>>,
}

impl Leadership {
    /// Creates a leadership that lasts until the published instant.
    pub(crate) fn until(until: Arc<Awaited<Option<Instant>>>) -> Self {
        Self { until }
    }

    /// Returns whether this replica leads at this moment. After a pause of the process, this check
    /// notices the lost Lease before the leader election does.
    pub fn holds(&self) -> bool {
        self.until.get().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until this replica leads.
    pub async fn gained(&self) {
        let lasts = |until: Option<Instant>| until.is_some_and(|until| Instant::now() < until);
        self.until.wait_for(lasts).await;
    }

    /// Waits until this replica no longer leads: it lost the Lease, or the renewal is late. A short
    /// delay counts, too, because objects whose writes it skipped must be reconciled again.
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
