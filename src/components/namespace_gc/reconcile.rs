//! The reconciler: removes a deleted namespace from the backend.

use super::{
    NAME, Seen,
    notices::Notices,
    remover::{Removal, Remover},
    retry::Retry,
    waiting::{Origin, Waiting},
};
use crate::{
    cluster::{Feed, Leadership, Reconcile, ReconcileError, Reconciled, Requeue, WorkQueue},
    objects::{Namespace, ObjectName},
    telemetry::Metrics,
};
use std::sync::Arc;
use tokio::sync::watch;

/// Removes namespaces from the storage backend after Kubernetes has deleted them.
#[derive(Clone)]
pub struct NamespaceGcReconciler {
    /// The watch that reports deleted namespaces.
    pub namespaces: Arc<Feed<Namespace>>,
    /// Deletes namespaces in the backend.
    pub remover: Arc<Remover>,
    /// Namespaces that could not be removed yet.
    pub waiting: Arc<Waiting>,
    /// The record of the names that this cluster once had; none unless the scope is `Scope::Seen`.
    pub seen: Option<Arc<Seen>>,
    /// Sends a value to request a collection before the scheduled time.
    pub soon: watch::Sender<()>,
    /// Publishes Events and log lines about namespaces of the backend.
    pub notices: Notices,
}

impl NamespaceGcReconciler {
    /// Adds a namespace to the queue when the watch reports its deletion. A Terminating namespace
    /// still exists, so it is not added.
    ///
    /// If the watch was restarted and only its new LIST lacks the namespace, a collection removes
    /// it, which has a maximum number of deletions: an API server that has lost its data lists no
    /// namespace.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        let (queue, waiting, soon) = (queue.clone(), self.waiting.clone(), self.soon.clone());
        let remover = self.remover.clone();
        self.namespaces.listen(move |change| {
            if change.new.is_some() {
                waiting.forget(change.name);
                waiting.take_reported(change.name);
            } else if change.tombstone {
                let namespace = &*change.name.name;
                tracing::info!(
                    component = NAME,
                    namespace,
                    "the watch missed the deletion of the namespace; a collection must remove it from the storage backend"
                );
                soon.send_replace(());
            } else if remover.leads() {
                // The queue of another replica drops the key.
                waiting.report(change.name);
                queue.add(change.name.clone());
            }
        });
    }

    /// Registers a hook that counts the namespaces waiting for their removal before each scrape of
    /// the metrics, on the leader only.
    pub fn count(&self, leadership: &Leadership, metrics: &Metrics) {
        let (waiting, leadership) = (self.waiting.clone(), leadership.clone());
        let own = self.remover.gc_metrics.clone();
        metrics.before_scrape(move |_| {
            let leads = leadership.holds();
            #[expect(
                clippy::iter_over_hash_type,
                reason = "each reason has its own gauge, in any order"
            )]
            for (reason, counted) in waiting.count() {
                let (count, oldest) = if leads { counted } else { Default::default() };
                own.waiting(reason.name(), count, oldest);
            }
        });
    }

    /// Removes from the record the name of a namespace that neither Kubernetes nor the backend has
    /// any more: what the backend has under that name later belongs to another user of the storage.
    /// If that fails, a collection does it.
    async fn forget(&self, name: &ObjectName) {
        let Some(seen) = self.seen.as_ref().filter(|_| !self.remover.options.dry_run) else {
            return;
        };
        let exists = |name: &str| self.exists(name);
        if let Err(error) = seen.forget_removed(&name.name, exists).await {
            let namespace = &*name.name;
            tracing::warn!(component = NAME, namespace, %error, "cannot remove the name of the deleted namespace from the record, which a collection does later");
        }
    }

    /// Returns whether the watch has the namespace of this name.
    pub fn exists(&self, name: &str) -> bool {
        let name = ObjectName::cluster_scoped(name);
        self.namespaces.read().get(&name).is_some()
    }

    fn retry(&self) -> Retry<'_> {
        Retry {
            seen: self.seen.as_deref(),
            waiting: &self.waiting,
        }
    }

    /// Records the result of a removal, and publishes an Event if the namespace was deleted or is
    /// absent after a failure, or if the reason of a failure is new.
    ///
    /// # Errors
    /// If the removal failed, or this replica does not lead.
    pub fn conclude(&self, name: &ObjectName, removal: &Removal, origin: Origin) -> Reconciled {
        match removal {
            Removal::Waits(reason, why) => {
                let now = self.remover.clock.timestamp();
                let waits = self.waiting.failed(name, *reason, origin, now);
                if waits.is_new_reason {
                    let (waiting, reason) = (self.waiting.clone(), *reason);
                    let unpublished = name.clone();
                    let otherwise = move || waiting.mark_unpublished(&unpublished, reason);
                    self.notices.waits(&name.name, (reason, why), otherwise);
                }
                let (cause, attempts) = (reason.name(), waits.attempts);
                let sentence = format!("{cause}: {why} (attempt {attempts})");
                return Err(ReconcileError::on_schedule(waits.delay, sentence));
            }
            Removal::TooYoung => {
                let grace = self.remover.options.grace;
                self.waiting.put_off(name, grace);
                let reason = "the namespace of the storage backend was created or changed less \
                    than --gc-grace ago, so it is not deleted yet";
                return Ok(Requeue::After(grace, reason.into()));
            }
            Removal::NotLeading => {
                return Err(ReconcileError::new(
                    "this replica is not the leader, \
                so it deletes no namespace",
                ));
            }
            Removal::Deleted => self.notices.deleted(&name.name),
            // An Event reported the failure.
            Removal::Absent if self.waiting.origin(name).is_some() => {
                self.notices.absent(&name.name);
            }
            Removal::Absent | Removal::Kept | Removal::Withheld => {}
        }
        self.waiting.forget(name);
        Ok(Requeue::OnEvent)
    }
}

impl Reconcile for NamespaceGcReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    /// Returns the namespaces whose next removal attempt is due. Deletions that the watch missed
    /// are not among them; a collection finds those.
    fn candidates(&self) -> Vec<ObjectName> {
        self.waiting.due()
    }

    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        // While the cache contains the namespace, the namespace of that name in the backend is
        // kept, even if the cache is stale.
        if self.namespaces.read().get(name).is_some() {
            self.waiting.forget(name);
            return Ok(Requeue::OnEvent);
        }
        if let Some(left) = self.waiting.left(name) {
            return Ok(Requeue::After(
                left,
                "waiting for the next attempt to remove the namespace".into(),
            ));
        }
        let (waits, reported) = (self.waiting.origin(name), self.waiting.take_reported(name));
        if waits.is_none() && !reported {
            // The key is left over from a retry that is no longer needed.
            return Ok(Requeue::OnEvent);
        }
        let retry = waits.is_some().then(|| self.retry());
        let origin = waits.unwrap_or(Origin::RecentlyDeleted);
        let removal = self.remover.remove(name, origin, retry.as_ref()).await;
        if matches!(removal, Removal::Deleted | Removal::Absent) {
            self.forget(name).await;
        }
        self.conclude(name, &removal, origin)
    }
}
