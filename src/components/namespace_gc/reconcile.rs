//! The reconciler: what happens when a namespace is gone.

use super::{
    NAME,
    notices::Notices,
    remover::{Removal, Remover},
    waiting::{Origin, Waiting},
};
use crate::{
    cluster::{Feed, Leadership, Reconcile, Retry, WorkQueue},
    objects::{Namespace, ObjectName},
    telemetry::Metrics,
};
use std::sync::Arc;
use tokio::sync::watch;

/// What the reconciler works with.
#[derive(Clone)]
pub struct NamespaceGcReconciler {
    /// What the watch told.
    pub namespaces: Arc<Feed<Namespace>>,
    /// Who deletes.
    pub remover: Arc<Remover>,
    /// Those that could not be removed yet.
    pub waiting: Arc<Waiting>,
    /// Changes whenever a collection is wanted before its time.
    pub soon: watch::Sender<()>,
    /// What users are told.
    pub notices: Notices,
}

impl NamespaceGcReconciler {
    /// Puts a namespace in line when the watch tells that it is gone. One that is Terminating is still there.
    ///
    /// What only lacks in a new list is for a collection, which is careful with many at once: an API server that has lost its data
    /// lacks all of them.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        let (line, waiting, soon) = (queue.clone(), self.waiting.clone(), self.soon.clone());
        self.namespaces.listen(move |change| {
            if change.new.is_some() {
                waiting.forget(change.name);
            } else if change.tombstone {
                let namespace = &*change.name.name;
                tracing::info!(
                    component = NAME,
                    namespace,
                    "its end was missed, and is left to a collection"
                );
                soon.send_replace(());
            } else {
                line.add(change.name.clone());
            }
        });
    }

    /// Has those that wait counted at every scrape, where this replica leads.
    pub fn count(&self, leadership: &Leadership, metrics: &Metrics) {
        let (waiting, leadership) = (self.waiting.clone(), leadership.clone());
        let own = self.remover.gc_metrics.clone();
        metrics.before_scrape(move |_| {
            let leads = leadership.holds();
            for (reason, counted) in waiting.count() {
                let (count, oldest) = if leads { counted } else { Default::default() };
                own.waiting(reason.name(), count, oldest);
            }
        });
    }

    /// Takes note of what became of a namespace, and tells users what is news to them.
    ///
    /// # Errors
    /// When it has to be tried again.
    pub fn conclude(
        &self,
        name: &ObjectName,
        removal: &Removal,
        origin: Origin,
    ) -> Result<(), Retry> {
        match removal {
            Removal::Waits(reason, why) => {
                let waits = self.waiting.failed(name, *reason, origin);
                if waits.news {
                    let (waiting, reason) = (self.waiting.clone(), *reason);
                    let untold = name.clone();
                    let otherwise = move || waiting.untold(&untold, reason);
                    self.notices.waits(&name.name, (reason, why), otherwise);
                }
                let (cause, attempts) = (reason.name(), waits.attempts);
                let sentence = format!("{cause}: {why} (attempt {attempts})");
                return Err(Retry::on_schedule(waits.delay, sentence));
            }
            Removal::TooYoung => {
                let grace = self.remover.options.grace;
                self.waiting.put_off(name, grace);
                return Err(Retry::later(grace, "it is too young for a collection"));
            }
            Removal::NotLeading => return Err(Retry::new("this replica does not lead")),
            Removal::Deleted => self.notices.deleted(&name.name),
            Removal::Withheld => {
                tracing::info!(component = NAME, namespace = %name, "would delete it from the storage backend");
            }
            Removal::Absent | Removal::Kept => {}
        }
        self.waiting.forget(name);
        Ok(())
    }
}

impl Reconcile for NamespaceGcReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    /// Only those whose turn it is: ends that nobody saw are for a collection to find.
    fn candidates(&self) -> Vec<ObjectName> {
        self.waiting.due()
    }

    async fn reconcile(&self, name: &ObjectName) -> Result<(), Retry> {
        // What the watch knows may be late, and is enough to keep a namespace.
        if self.namespaces.read().get(name).is_some() {
            self.waiting.forget(name);
            return Ok(());
        }
        if let Some(left) = self.waiting.left(name) {
            return Err(Retry::later(left, "it was tried a moment ago"));
        }
        let waits = self.waiting.origin(name);
        let origin = waits.unwrap_or(Origin::RecentlyDeleted);
        let removal = self.remover.remove(name, origin, waits.is_some()).await;
        self.conclude(name, &removal, origin)
    }
}
