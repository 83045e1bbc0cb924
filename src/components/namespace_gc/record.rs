//! With `--gc-scope=seen`, the leader records the name of each Kubernetes namespace in a ConfigMap
//! soon after the watch reports the namespace.

use super::{
    GcMetrics, NAME, schedule,
    seen::{Seen, Unreadable},
};
use crate::{
    cluster::{Feed, Leadership},
    objects::Namespace,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

/// Names of namespaces that are created within this time are written together.
const GATHER: Duration = Duration::from_millis(200);
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// How long a replica that does not lead keeps the name of a deleted namespace. If there was no
/// leader while the namespace existed, the next one is found sooner: after 15 s, the duration of
/// the Lease.
const DELETED_NAME_RETENTION: Duration = Duration::from_secs(60);

/// Writes the names of new Kubernetes namespaces to [`Seen`] while this replica leads.
pub struct Recorder {
    seen: Arc<Seen>,
    leadership: Leadership,
    metrics: Arc<GcMetrics>,
    /// Names of namespaces that the watch reported and that this replica has not recorded yet.
    /// Those that were deleted while it did not lead have the time of their deletion.
    pending: Mutex<BTreeMap<String, Option<Instant>>>,
    notify: Notify,
}

impl Recorder {
    /// A recorder that writes to `seen` while this replica leads.
    pub fn new(seen: Arc<Seen>, leadership: Leadership, metrics: Arc<GcMetrics>) -> Arc<Self> {
        Arc::new(Self {
            seen,
            leadership,
            metrics,
            pending: Mutex::default(),
            notify: Notify::new(),
        })
    }

    /// Collects the name of every new namespace. While another replica leads, a name is dropped a
    /// minute after its namespace was deleted, because that replica has recorded it.
    pub fn listen(self: &Arc<Self>, namespaces: &Feed<Namespace>) {
        let recorder = self.clone();
        namespaces.listen(move |change| {
            let name = &*change.name.name;
            match (change.old, change.new) {
                (None, Some(_)) => {
                    recorder.pending.lock().insert(name.to_owned(), None);
                    recorder.notify.notify_one();
                }
                (Some(_), None) if !recorder.leadership.holds() => {
                    let mut pending = recorder.pending.lock();
                    forget_old(&mut pending);
                    if let Some(deleted) = pending.get_mut(name) {
                        *deleted = Some(Instant::now());
                    }
                }
                _ => {}
            }
        });
    }

    /// Runs until `stop` is cancelled, and writes collected names while this replica leads.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.leadership.gained() => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.leadership.lost() => {}
                () = self.work() => {}
            }
            self.metrics.forget_record();
        }
    }

    async fn work(&self) {
        let mut failures = 0;
        loop {
            let pending = self.pending();
            if pending.is_empty() {
                self.notify.notified().await;
                sleep(GATHER).await;
                continue;
            }
            match self.record(&pending).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    let chance = schedule::chance();
                    let delay = schedule::backoff(FIRST_DELAY, LONGEST_DELAY, failures, chance);
                    tracing::warn!(component = NAME, %error, ?delay, "names of new namespaces \
                        could not be recorded in the ConfigMap volume-warden-seen-namespaces; \
                        retrying");
                    sleep(delay).await;
                }
            }
        }
    }

    async fn record(&self, pending: &BTreeSet<String>) -> Result<(), Unreadable> {
        let recorded = self.seen.add(pending).await?;
        self.metrics.recorded(recorded);
        if recorded.left_out > 0 {
            tracing::warn!(
                component = NAME,
                left_out = recorded.left_out,
                "the ConfigMap volume-warden-seen-namespaces is full; with --gc-scope=seen, no \
                 collection deletes the namespaces whose names are left out"
            );
        }
        self.pending
            .lock()
            .retain(|name, _| !pending.contains(name));
        Ok(())
    }

    /// Returns the names that are to be recorded now.
    fn pending(&self) -> BTreeSet<String> {
        let mut pending = self.pending.lock();
        forget_old(&mut pending);
        pending.keys().cloned().collect()
    }
}

/// Forgets the names of namespaces that were deleted longer than [`DELETED_NAME_RETENTION`] ago.
fn forget_old(pending: &mut BTreeMap<String, Option<Instant>>) {
    pending.retain(|_, deleted| deleted.is_none_or(|at| at.elapsed() < DELETED_NAME_RETENTION));
}
