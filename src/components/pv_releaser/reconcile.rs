//! The reconciler of pv-releaser: carries out the decisions about volumes, and publishes Events.

use super::{
    Mode, NAME, Options, Scope,
    caches::Caches,
    metrics, notices,
    parked::{Reservations, unread},
    patch::{action, association, record, release},
    reasons::{ASSOCIATED, CANNOT_ASSOCIATE, CANNOT_RELEASE, RECORDED, RELEASED},
    rule::{Attachment, Decision, LeaveReason, Unconfirmed},
    triggers,
};
use crate::{
    cluster::{
        Apply, Basis, DEFAULT_CALL_TIMEOUT, EventDeduplicator, OnRefusal, Proof, Reconcile,
        ReconcileError, Reconciled, Regarding, Requeue, SharedList, Target, WorkQueue,
    },
    hashing::HashSet,
    objects::{ObjectName, Volume, VolumeAttachment, reuse::Record, volume::Phase},
    telemetry::Metrics,
};
use std::{sync::Arc, time::Duration};

/// Maximum age of the LIST of VolumeAttachments on which the release of a volume may rest.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Labels volumes, and records the namespaces of their claims. Releases a managed volume whose
/// claim is deleted: parks it for the next claim of that namespace, or removes its `claimRef` or
/// only the uid in it. Reserves parked volumes for claims, ends reservations, and publishes Events
/// about volumes that stay Released.
pub struct PvReleaserReconciler {
    /// The watches that pv-releaser reads.
    pub caches: Caches,
    /// Lists VolumeAttachments live, to prove that a volume is detached.
    pub live_attachments: Arc<SharedList<VolumeAttachment>>,
    /// Reserves parked volumes, which wait for a claim of their namespace, for claims.
    pub reservations: Reservations,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
    /// The causes that Events have already reported, by volume.
    pub events: Arc<EventDeduplicator<ObjectName, LeaveReason>>,
}

impl PvReleaserReconciler {
    /// Enqueues volumes and claims when they or related objects change. Publishes an Event when a
    /// volume was labelled at admission, and when one was reserved.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        triggers::listen(&self.caches, queue);
        let (caches, apply) = (self.caches.clone(), self.apply.clone());
        self.caches.volumes.listen(move |change| {
            let Some(volume) = change.new else {
                return;
            };
            if caches.is_labelled_at_creation(change) {
                let regarding = Regarding::of(change.name, volume);
                apply.publish_event(regarding, notices::associated(volume));
            }
            let was_parked = change.old.is_some_and(|old| caches.is_parked(old));
            if was_parked && !caches.is_parked(volume) && volume.reserved_for().is_some() {
                let regarding = Regarding::of(change.name, volume);
                apply.publish_event(regarding, notices::reserved(volume));
            }
        });
    }

    /// Registers the metrics of Released and parked volumes.
    pub fn register_metrics(&self, metrics: &Metrics) {
        metrics::register(metrics, self.caches.clone());
    }

    /// Decides about the volume again, with a live LIST of VolumeAttachments as the proof that it
    /// is detached. Fails if it is attached.
    async fn confirm(
        &self,
        name: &ObjectName,
        volume: &Volume,
    ) -> Result<Decision<Proof>, ReconcileError> {
        let live = self.live_attachments.list(&name.namespace).await;
        let live = live.map_err(|error| {
            ReconcileError::new(format!("VolumeAttachments could not be listed: {error}"))
        })?;
        if !live.value.is_unreferenced(name) {
            // The watch may never deliver the VolumeAttachment if it is deleted soon. Then no
            // change would enqueue the volume, so the reconcile fails and is retried.
            return Err(ReconcileError::new(
                "the volume is attached, but the watch has not delivered its VolumeAttachment yet",
            ));
        }
        let detached = Attachment::Detached(live.proof(MAX_AGE));
        Ok(self.caches.judge_with(volume, detached))
    }

    /// Returns the record of the namespace of the volume's claim, by live reads; none if they do
    /// not prove in which namespace, by uid, the claim is or was.
    async fn identify(&self, volume: &Volume) -> Result<Option<Record>, ReconcileError> {
        let found = self
            .reservations
            .identity
            .record(volume, DEFAULT_CALL_TIMEOUT)
            .await;
        found.map_err(unread)
    }

    async fn associate(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let mut operations = association(volume, &self.caches.options.id);
        if self.caches.scope(volume) == Some(Scope::Namespace) {
            let found = self.identify(volume).await?;
            operations.extend(found.iter().flat_map(|found| record(volume, found)));
        }
        let refusal = OnRefusal::new(CANNOT_ASSOCIATE);
        let action = action("Associate", refusal, operations, Basis::Object).of_existing();
        let target = Target::of(name, volume);
        let applied = self.apply.perform(NAME, &target, action, ASSOCIATED).await;
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
            let regarding = Regarding::of(name, volume);
            self.apply
                .publish_event(regarding, notices::associated(volume));
        }
        applied.into_reconciled()
    }

    /// Records the namespace of the volume's claim. If nothing proves that namespace, the volume
    /// is left unchanged, and an Event reports a volume that is Released.
    async fn record(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let Some(found) = self.identify(volume).await? else {
            if volume.phase == Phase::Released {
                self.publish(name, volume, LeaveReason::Unrecorded);
            }
            return Ok(Requeue::OnEvent);
        };
        let refusal = OnRefusal::new(CANNOT_ASSOCIATE);
        let operations = record(volume, &found);
        let action = action("Record", refusal, operations, Basis::Object).of_existing();
        let target = Target::of(name, volume);
        let applied = self.apply.perform(NAME, &target, action, RECORDED).await;
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
        }
        applied.into_reconciled()
    }

    /// Returns how to release the volume to this scope. A soft release keeps the volume for a claim
    /// of the same name, and a claim of a recreated namespace may wait for it. So it requires that
    /// the recorded namespace still exists; otherwise, the volume is parked.
    async fn release_mode(&self, volume: &Volume, scope: Scope) -> Result<Mode, ReconcileError> {
        let mode = self.caches.options.release_mode;
        let record = match (mode, scope, volume.record()) {
            (Mode::Soft, Scope::Namespace, Some(record)) => record,
            _ => return Ok(mode),
        };
        let identity = &self.reservations.identity;
        let uid = identity.active_namespace(&record.namespace).await;
        let is_same = uid.map_err(unread)?.value == Some(record.namespace_uid.clone());
        Ok(if is_same { Mode::Soft } else { Mode::Full })
    }

    /// Releases the volume from its claim. `detached` proves that no VolumeAttachment names the
    /// volume.
    async fn release(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        (scope, detached): (Scope, Proof),
    ) -> Reconciled {
        let release_mode = self.release_mode(volume, scope).await?;
        let options = Options {
            release_mode,
            ..Options::clone(&self.caches.options)
        };
        let action = action(
            "Release",
            OnRefusal::new(CANNOT_RELEASE),
            release(volume, scope, &options),
            Basis::Proof(detached),
        )
        .of_existing();
        let target = Target::of(name, volume);
        let applied = self.apply.perform(NAME, &target, action, RELEASED).await;
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
            let event_content = notices::released(volume, scope, release_mode);
            self.apply
                .publish_event(Regarding::of(name, volume), event_content);
        }
        applied.into_reconciled()
    }
}

impl Reconcile for PvReleaserReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        let volumes = self.caches.volumes.read();
        self.events.retain(|name| volumes.get(name).is_some());
        let mut names = volumes
            .names_where(|volume| volume.claimed_by().is_some() || volume.reserved_for().is_some());
        let parked = volumes
            .objects()
            .filter(|(_, each)| self.caches.is_parked(each));
        let parked = parked.filter_map(|(_, each)| Some(each.record()?.namespace.clone()));
        let namespaces: HashSet<_> = parked.collect();
        drop(volumes);
        let claims = namespaces
            .iter()
            .map(|each| self.caches.claims_waiting_in(each));
        names.extend(claims.flatten());
        names
    }

    /// Reconciles the volume of this name. A name with a namespace is that of a claim, which gets
    /// a parked volume if it still waits for one.
    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        if !name.namespace.is_empty() {
            return self.reservations.reserve_for_claim(name).await;
        }
        let (known, current) = {
            let volumes = self.caches.volumes.read();
            (volumes.get(name), volumes.get_fresh(name))
        };
        if known.is_none() {
            self.events.forget(name);
        }
        let Some(volume) = current else {
            return Ok(Requeue::OnEvent);
        };
        if volume.reserved_for().is_some() {
            return self.reservations.check(name, &volume).await;
        }
        let decision = match self.caches.judge(name, &volume) {
            // The volume was read before, so a LIST of VolumeAttachments that begins now is newer
            // than the volume.
            Decision::Release(_, Unconfirmed) => self.confirm(name, &volume).await?,
            Decision::Associate => Decision::Associate,
            Decision::Record => Decision::Record,
            Decision::Leave(left) => Decision::Leave(left),
        };
        if !decision.is_in_time(volume.phase) {
            tracing::debug!(component = NAME, object = %name, "the volume is not Bound yet, so it is labelled later");
            return Ok(Requeue::OnEvent);
        }
        match decision {
            Decision::Associate => self.associate(name, &volume).await,
            Decision::Record => self.record(name, &volume).await,
            Decision::Release(scope, detached) => {
                self.release(name, &volume, (scope, detached)).await
            }
            Decision::Leave(left) => {
                let reason = left.name();
                tracing::debug!(component = NAME, object = %name, reason, "no action");
                self.publish(name, &volume, left);
                Ok(Requeue::OnEvent)
            }
        }
    }
}
