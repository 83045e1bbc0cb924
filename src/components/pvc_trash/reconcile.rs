//! The reconciler of pvc-trash: which live reads a decision needs, and what it writes.

use super::{
    NAME,
    caches::Caches,
    confirm::Live,
    copies::Copies,
    notices::{self, RestoreObstacle},
    patch,
    purge_limit::PurgeLimit,
    reasons::{MOVED_TO_TRASH, TRASH_ENABLED},
    recorded::{action, recorded},
    rule::{Decision, LeaveReason},
    triggers,
    undelete::VolumeRestorer,
};
use crate::{
    clock::Clock,
    cluster::{
        ALWAYS, Action, Applied, Apply, Basis, DEFAULT_CALL_TIMEOUT, EventContent,
        EventDeduplicator, Lane, Reconcile, Reconciled, Regarding, Requeue, StillHolds, Target,
        WorkQueue,
    },
    hashing::HashSet,
    objects::{
        Kind, ObjectName, Volume,
        trash::{ANOTHER_NAMESPACE, TrashRecord},
    },
};
use std::{sync::Arc, time::Duration};

/// Maximum delay until a volume whose window has not ended is evaluated again.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Keeps the volumes of deleted claims, restores them, and purges those whose window has ended or
/// whose purge a user requested.
pub struct PvcTrashReconciler {
    /// The watches that pvc-trash reads.
    pub caches: Caches,
    /// Reads objects and the time from the API server, for decisions that need more than the
    /// watches.
    pub live: Arc<Live>,
    /// Creates, updates and deletes the copies of the volumes' objects.
    pub copies: Copies,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
    /// The wall clock, which is compared with that of the API server.
    pub clock: Clock,
    /// Limits the purges of any hour to `--trash-max-purges`.
    pub purges: PurgeLimit,
    /// Reserves volumes for claims that request the data of deleted ones.
    pub undelete: VolumeRestorer,
    /// The causes that Events have already reported, by volume.
    pub events: Arc<EventDeduplicator<ObjectName, LeaveReason>>,
    /// The errors that Events have already reported, by StorageClass, each with the annotation that
    /// cannot be read.
    pub classes: Arc<EventDeduplicator<ObjectName, (&'static str, String)>>,
}

impl PvcTrashReconciler {
    /// Enqueues a volume when it or a related object changes.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        triggers::listen(&self.caches, &self.copies, queue);
    }

    async fn enable(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        mut record: TrashRecord,
    ) -> Reconciled {
        let before = recorded(volume);
        let known = before.filter(|before| before.claim.uid == record.claim.uid);
        let known = known.filter(|before| before.claim.namespace_uid.is_some());
        // If the live reads fail, the record lacks the uid of the namespace: the data is kept, and
        // until a later reconcile adds the uid, only an administrator can restore the claim.
        let completed = match known {
            None => self.live.complete_record(&mut record.claim).await,
            Some(known) => {
                record.claim = known.claim.clone();
                Ok(())
            }
        };
        // Without the uid, a record of an earlier claim of this namespace is better: it has that
        // uid, and keeps it when the volume is moved to the trash.
        if volume.retains() && before.is_some() && record.claim.namespace_uid.is_none() {
            completed?;
            let why = "the claim of the volume does not exist";
            return Ok(Requeue::After(LONGEST_WAIT, why.to_owned()));
        }
        let operations = patch::record(volume, &record);
        let action = action("EnableTrash", Lane::Safety, operations, Basis::Object);
        self.write(name, volume, action, TRASH_ENABLED)
            .await
            .into_reconciled()
    }

    async fn move_to_trash(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        mut record: TrashRecord,
    ) -> Reconciled {
        let Some(claim) = volume.claimed_by() else {
            return Ok(Requeue::OnEvent);
        };
        let proof = self.live.claim_is_deleted(claim).await?;
        // If the namespace of the earlier claim still exists with the same uid, it was not deleted
        // meanwhile, so the later claim was in it, too.
        let void = recorded(volume).is_none_or(|before| before.claim.uid != record.claim.uid);
        if void && !self.live.is_same_namespace(&record).await? {
            record.claim.namespace_uid = None;
        }
        let now = self.live.window_start(self.clock.timestamp()).await?;
        let operations = patch::move_to_trash(volume, &record, now);
        let action = action(
            "MoveToTrash",
            Lane::Release,
            operations,
            Basis::Proof(proof),
        );
        let applied = self.write(name, volume, action, MOVED_TO_TRASH).await;
        if applied.written() {
            let record = TrashRecord {
                deleted_at: Some(now),
                ..record
            };
            self.publish_deletion(name, volume, &record).await;
        }
        applied.into_reconciled()
    }

    /// Publishes on the volume and on the claim that the claim can be restored, unless the volume
    /// is purged at once: by users of its namespace, or only by an administrator, who restores a
    /// claim whose namespace is deleted or being deleted in another one, and claims of a namespace
    /// that is recreated or not handled, for which the webhook does nothing. If the namespace
    /// cannot be read, it is an administrator's command, too. The Event is published on the claim
    /// only if its namespace was not recreated: users of another one must not learn which claims
    /// there were.
    async fn publish_deletion(&self, name: &ObjectName, volume: &Volume, record: &TrashRecord) {
        let Some(claim) = volume.claimed_by().filter(|_| !record.ends_at_once()) else {
            return;
        };
        let namespace = &record.claim.namespace;
        let found = self.live.namespace(namespace, DEFAULT_CALL_TIMEOUT).await;
        // No more claims are created in a namespace that is being deleted.
        let accepts_claims = match &found {
            Ok(found) => found.as_ref().is_some_and(|found| !found.deleting),
            Err(_) => true,
        };
        let same = found.ok().flatten();
        let same = same.filter(|found| record.is_of(Some(&found.uid)));
        let command = if !accepts_claims {
            record.administrators_command(ANOTHER_NAMESPACE)
        } else if same.is_some() && self.caches.handles(namespace) {
            record.command()
        } else {
            record.administrators_command(namespace)
        };
        let event_content = notices::moved_to_trash(record, &command);
        self.publish_event(name, volume, event_content.clone());
        // Users who may not read volumes see the Event in the namespace of their claim.
        if same.is_some() {
            let claim = Regarding::new(Kind::PersistentVolumeClaim, &claim.name, &claim.uid);
            self.apply.publish_event(claim, event_content);
        }
    }

    /// Reserves the volume for the claim. If the claim may not have it, the volume is treated as if
    /// no claim requested it: its undelete window is not prolonged.
    async fn restore(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        claim: &ObjectName,
    ) -> Reconciled {
        if let Some(restored) = self.undelete.restore(name, volume, claim).await? {
            return Ok(restored);
        }
        match self.caches.judge_for(volume, None) {
            Decision::Keep { until, requested } => {
                self.purge_when_due(name, volume, until, requested).await
            }
            _ => Ok(Requeue::OnEvent),
        }
    }

    pub(super) async fn write(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        action: Action,
        reason: &'static str,
    ) -> Applied {
        self.write_if(name, volume, (action, reason), ALWAYS).await
    }

    /// Writes the volume, unless `still_holds` returns false when it is the write's turn.
    pub(super) async fn write_if(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        (action, reason): (Action, &'static str),
        still_holds: StillHolds<'_>,
    ) -> Applied {
        let target = Target::of(name, volume);
        let applied = self
            .apply
            .perform_if(NAME, &target, action, reason, still_holds)
            .await;
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
        }
        applied
    }

    pub(super) fn publish_event(
        &self,
        name: &ObjectName,
        volume: &Volume,
        event_content: EventContent,
    ) {
        self.apply
            .publish_event(Regarding::of(name, volume), event_content);
    }
}

impl Reconcile for PvcTrashReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        self.report_classes();
        let windows: HashSet<_> = {
            let classes = self.caches.classes.read();
            self.classes.retain(|name| classes.get(name).is_some());
            let windows = classes
                .objects()
                .filter(|(_, class)| class.undelete_window.is_some());
            windows.map(|(name, _)| name.name.clone()).collect()
        };
        let copied = self.copies.volumes();
        let volumes = self.caches.volumes.read();
        self.copies.retain(|name| volumes.get(name).is_some());
        self.events.retain(|name| volumes.get(name).is_some());
        let is_requested = |volume: &Volume| {
            let trash = volume.trash.as_deref();
            trash.is_some_and(|trash| trash.purge.is_some())
        };
        self.purges.retain(|name| {
            volumes
                .get(name)
                .is_some_and(|volume| is_requested(&volume))
        });
        let refused = &self.undelete.refused;
        refused.retain(|name| volumes.get(name).is_some() || self.caches.is_wanted(name));
        let mut names = volumes
            .names_where(|volume| volume.trash.is_some() || windows.contains(&*volume.class));
        names.extend(copied);
        names
    }

    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        self.purges.forget(name);
        let volumes = &self.caches.volumes;
        let (known, fresh) = {
            let volumes = volumes.read();
            (volumes.get(name).is_some(), volumes.get_fresh(name))
        };
        let Some(volume) = fresh else {
            if !known && volumes.is_synced() {
                let repair = self.copies.repair(name);
                self.undelete.report_absent(name, repair.as_deref()).await?;
            }
            return Ok(Requeue::OnEvent);
        };
        self.report_class(&volume.class);
        let decision = self.caches.judge(name, &volume);
        if decision != Decision::AwaitBinding {
            self.undelete.forget(name);
        }
        // The copy of the volume's object is written first. The decision may be a purge, which
        // deletes the copy before the volume.
        let saved = match decision {
            Decision::Leave(_) => {
                let may_save = self.caches.watches_claim_of(&volume);
                self.copies.reconcile_copy(name, &volume, may_save).await
            }
            Decision::Keep { until, requested } => {
                let is_due = requested || until <= self.clock.timestamp();
                self.copies.reconcile_copy(name, &volume, !is_due).await
            }
            _ => Ok(()),
        };
        let done = self.carry_out(decision, name, &volume).await;
        done.and_then(|requeue| saved.map(|()| requeue))
    }
}

impl PvcTrashReconciler {
    async fn carry_out(
        &self,
        decision: Decision,
        name: &ObjectName,
        volume: &Arc<Volume>,
    ) -> Reconciled {
        match decision {
            Decision::Record(record) => self.enable(name, volume, record).await,
            Decision::Disable => self.disable(name, volume).await,
            Decision::MoveToTrash(record) => self.move_to_trash(name, volume, record).await,
            Decision::Keep { until, requested } => {
                self.purge_when_due(name, volume, until, requested).await
            }
            Decision::Restore(claim) => self.restore(name, volume, &claim).await,
            Decision::AwaitBinding => self.undelete.await_binding(name, volume).await,
            Decision::ReturnToTrash => self.undelete.return_to_trash(name, volume).await,
            Decision::Leave(left) => {
                let reason = left.name();
                tracing::debug!(component = NAME, object = %name, reason, "no action");
                self.publish(name, volume, left);
                let ends = matches!(left, LeaveReason::Purging | LeaveReason::Deleting);
                if ends && !volume.retains() && recorded(volume).is_some() {
                    self.undelete
                        .report_unavailable(name, RestoreObstacle::Purging(volume));
                }
                Ok(Requeue::OnEvent)
            }
        }
    }
}
