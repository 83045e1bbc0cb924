//! The result of the leader election, for the other parts of the process.

use tokio::{sync::watch, time::Instant};

/// Whether this replica leads and may therefore write.
#[derive(Clone, Debug)]
pub struct Leadership {
    until: watch::Receiver<Option<Instant>>,
}

impl Leadership {
    /// Creates a leadership that lasts until the instant in the channel.
    pub(crate) fn until(until: watch::Receiver<Option<Instant>>) -> Self {
        Self { until }
    }

    /// Returns whether this replica leads at this moment. After a pause of the process, this check
    /// notices the lost Lease before the leader election does.
    pub fn holds(&self) -> bool {
        self.until
            .borrow()
            .is_some_and(|until| Instant::now() < until)
    }

    /// Waits until this replica leads. It waits for ever if the leader election has ended.
    pub async fn gained(&self) {
        let mut until = self.until.clone();
        if until
            .wait_for(|until| until.is_some_and(|until| Instant::now() < until))
            .await
            .is_err()
        {
            std::future::pending().await
        }
    }

    /// Waits until this replica no longer leads: it lost the Lease, or the renewal is late. A short
    /// delay counts, too, because objects whose writes it skipped must be reconciled again.
    pub async fn lost(&self) {
        let mut receiver = self.until.clone();
        loop {
            let Some(until) = *receiver.borrow_and_update() else {
                return;
            };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => return,
                changed = receiver.changed() => if changed.is_err() { return },
            }
        }
    }
}
