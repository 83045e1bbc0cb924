//! Restores a volume: reserves it for the claim that requests it, and changes an annotation of the
//! claim until kube-controller-manager has bound it. If that takes too long, the volume returns to
//! the trash.

mod binding;

use super::{
    NAME,
    caches::Caches,
    confirm::Live,
    notices::{self, RestoreObstacle},
    patch,
    reasons::{RESTORED, RETURNED_TO_TRASH},
    recorded::{action, is_for, recorded},
    restore_requests::requested,
};
use crate::{
    clock::Clock,
    cluster::{
        Apply, Basis, EventContent, EventDeduplicator, Lane, ReconcileError, Reconciled, Regarding,
        Requeue, Target,
    },
    hashing::{HashMap, HashSet},
    objects::{
        Claim, CompactText, ObjectName, Volume, can_exist, claim::ClaimPhase, trash::TrashRecord,
    },
};
use binding::{NEXT_TOUCH, Waiting};
use parking_lot::Mutex;
use std::sync::Arc;

/// Reserves volumes for the claims that request them, and returns them to the trash if these claims
/// are not Bound in time.
pub struct VolumeRestorer {
    pub(super) caches: Caches,
    pub(super) live: Arc<Live>,
    pub(super) apply: Arc<Apply>,
    pub(super) clock: Clock,
    /// The reserved volumes whose claims are not Bound.
    pub(super) waiting: Mutex<HashMap<ObjectName, Waiting>>,
    /// By name of a volume, the uids of the claims for which an Event has already said that they do
    /// not get it. A claim names its volume, so it gets one Event, also if the volume is purged and
    /// then does not exist any more.
    pub(super) refused: EventDeduplicator<ObjectName, CompactText>,
}

impl VolumeRestorer {
    /// Reserves the volume for the claim, or returns none if the deleted claim was in another
    /// namespace. The annotation and `volumeName` of the claim are text of a tenant. So live reads
    /// check that the claim still requests the volume, and that its namespace is the one in which
    /// the deleted claim was.
    pub async fn restore(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        claim: &ObjectName,
    ) -> Result<Option<Requeue>, ReconcileError> {
        let Some(record) = recorded(volume) else {
            return Ok(Some(Requeue::OnEvent));
        };
        let (live, proof) = self.live.claim(claim).await?;
        let Some(live) =
            live.filter(|live| requested(live).is_some_and(|volume| *volume == *name.name))
        else {
            return Err(ReconcileError::new(
                "the claim no longer requests the volume",
            ));
        };
        let same = record.claim.namespace == *claim.namespace
            && self.live.is_same_namespace(record).await?;
        if !same {
            let uids = HashSet::from_iter([live.uid.clone()]);
            if !self.refused.new_causes(name, "", uids).is_empty() {
                self.publish_event_on(claim, &live, notices::foreign(claim));
            }
            return Ok(None);
        }
        let now = self.live.now().await?;
        let operations = patch::reserve(volume, record, (claim, &live.uid), now);
        let action = action("Restore", Lane::Release, operations, Basis::Proof(proof));
        let applied = self
            .apply
            .perform(NAME, &Target::of(name, volume), action, RESTORED)
            .await;
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
            let restored = notices::restored(claim);
            self.apply
                .publish_event(Regarding::of(name, volume), restored.clone());
            self.publish_event_on(claim, &live, restored);
        }
        applied.into_reconciled().map(Some)
    }

    /// Returns the volume to the trash, because the claim that it is reserved for was deleted or
    /// was not Bound to it in time. If a live read shows that the claim is Bound to the volume, or
    /// is Pending and still has time, waits for the watch instead.
    pub async fn return_to_trash(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let Some((record, claim_ref)) = recorded(volume).zip(volume.claim_ref.as_ref()) else {
            return Ok(Requeue::OnEvent);
        };
        let (live, proof) = self.live.claim(&claim_ref.name).await?;
        // Only the phase shows that the claim is Bound, because only kube-controller-manager writes
        // it. A tenant could keep the volume reserved by annotations or the volume name of the
        // claim.
        let is_bound =
            |claim: &&Claim| claim.phase == ClaimPhase::Bound && claim.volume_name == *name.name;
        if let Some(claim) = live.as_ref().filter(is_bound) {
            // The binder writes the volume before the claim. The watch has not delivered the volume
            // yet.
            let why = format!(
                "the claim {} with the uid {} is Bound; waiting until the watch shows the volume \
                 as Bound",
                claim_ref.name, claim.uid
            );
            return Ok(Requeue::After(NEXT_TOUCH, why));
        }
        let unbindable = live.filter(|claim| !claim.deleting && is_for(record, claim));
        let pending = unbindable.as_ref().filter(|claim| claim.awaits_volume());
        if let Some((claim, reserved_at)) = pending.zip(record.reserved_at)
            && !self.has_ended(name, reserved_at).await?
        {
            let why = format!(
                "the claim {} with the uid {} is Pending; waiting until the watch has it",
                claim_ref.name, claim.uid
            );
            return Ok(Requeue::After(NEXT_TOUCH, why));
        }
        let mut returned = TrashRecord {
            reserved_at: None,
            reserved_for: None,
            returned_at: Some(self.live.window_start(self.clock.timestamp()).await?),
            ..record.clone()
        };
        let uid = unbindable.as_ref().map(|claim| claim.uid.to_string());
        returned.unbindable.extend(uid);
        let operations = patch::return_to_trash(volume, &returned);
        let action = action(
            "ReturnToTrash",
            Lane::Release,
            operations,
            Basis::Proof(proof),
        );
        let target = Target::of(name, volume);
        let applied = self
            .apply
            .perform(NAME, &target, action, RETURNED_TO_TRASH)
            .await;
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
            let event = notices::returned(name, &returned);
            self.apply.publish_event(Regarding::of(name, volume), event);
            if let Some(claim) = unbindable {
                let event = notices::unbindable(&claim_ref.name, claim.phase);
                self.publish_event_on(&claim_ref.name, &claim, event);
            }
        }
        applied.into_reconciled()
    }

    /// Reports a volume that the watch does not show to the claims that wait for it, as
    /// [`Self::report_unavailable`] does. The Event asks users to delete their claim, so a live
    /// read must confirm that the volume does not exist.
    ///
    /// # Errors
    /// When the volume could not be read.
    pub async fn report_absent(
        &self,
        name: &ObjectName,
        repair: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let is_awaited = !self.caches.requesting(&name.name, None).is_empty();
        // The API server accepts any text as the volume name of a claim.
        let is_possible = can_exist("", &name.name);
        if is_awaited && !(is_possible && self.live.volume(name).await?.is_some()) {
            self.report_unavailable(name, RestoreObstacle::Absent { repair });
        }
        Ok(())
    }

    /// Publishes an Event for each claim that waits for a volume that is purged or does not exist,
    /// once.
    pub fn report_unavailable(&self, name: &ObjectName, end: RestoreObstacle<'_>) {
        let volume = match end {
            RestoreObstacle::Purging(volume) => Some(volume),
            RestoreObstacle::Absent { .. } => None,
        };
        let record = volume.and_then(recorded);
        let namespace = record.map(|record| record.claim.namespace.as_str());
        let claims = self.caches.requesting(&name.name, namespace);
        let uids = claims.iter().map(|(_, claim)| claim.uid.clone()).collect();
        let new_uids = self.refused.new_causes(name, "", uids);
        for (claim, found) in claims {
            if new_uids.contains(&found.uid) {
                let event = notices::volume_unavailable(&claim, end);
                self.publish_event_on(&claim, &found, event);
            }
        }
    }

    fn publish_event_on(&self, name: &ObjectName, claim: &Claim, event: EventContent) {
        self.apply.publish_event(Regarding::of(name, claim), event);
    }
}
