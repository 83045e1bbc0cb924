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
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;

/// Names of namespaces that are created within this time are written together.
const GATHER: Duration = Duration::from_millis(200);
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Writes the names of new Kubernetes namespaces to [`Seen`] while this replica leads.
pub struct Recorder {
    seen: Arc<Seen>,
    leadership: Leadership,
    metrics: Arc<GcMetrics>,
    /// Names of namespaces that the watch reported and that this replica has not recorded yet.
    pending: Mutex<BTreeSet<String>>,
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

    /// Collects the name of every new namespace. While another replica leads, a name is dropped
    /// when its namespace is deleted, because that replica has recorded it.
    pub fn listen(self: &Arc<Self>, namespaces: &Feed<Namespace>) {
        let recorder = self.clone();
        namespaces.listen(move |change| {
            let name = &*change.name.name;
            match (change.old, change.new) {
                (None, Some(_)) => {
                    recorder.lock().insert(name.to_owned());
                    recorder.notify.notify_one();
                }
                (Some(_), None) if !recorder.leadership.holds() => {
                    recorder.lock().remove(name);
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
        }
    }

    async fn work(&self) {
        let mut failures = 0;
        loop {
            let pending = self.lock().clone();
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
        let count = |count: usize| count.try_into().unwrap_or(i64::MAX);
        let metrics = &self.metrics;
        metrics.seen(count(recorded.names), count(recorded.left_out));
        if recorded.left_out > 0 {
            tracing::warn!(
                component = NAME,
                left_out = recorded.left_out,
                "the ConfigMap volume-warden-seen-namespaces is full; with --gc-scope=seen, no \
                 collection deletes the namespaces whose names are left out"
            );
        }
        self.lock().retain(|name| !pending.contains(name));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
