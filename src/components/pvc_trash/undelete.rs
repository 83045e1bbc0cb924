//! Restores a volume: reserves it for the claim that requests it, and sees to it that the claim is
//! bound.

use super::{
    NAME,
    caches::{Caches, requested},
    confirm::Live,
    notices, patch,
    reasons::{RESTORED, RETURNED_TO_TRASH},
    target::{action, recorded, regarding, target},
};
use crate::{
    clock::Clock,
    cluster::{
        Announcement, Apply, Basis, Lane, ReconcileError, Reconciled, Regarding, Requeue, Target,
    },
    hashing::HashMap,
    objects::{Claim, Kind, ObjectName, Volume},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long a volume stays reserved for a claim that is not Bound.
const RESERVED: Duration = Duration::from_secs(300);
/// Delay of the first change of a claim that is not Bound. The binder needs less if nothing
/// conflicts.
const FIRST_TOUCH: Duration = Duration::from_millis(300);
/// Interval of the later changes.
const NEXT_TOUCH: Duration = Duration::from_secs(1);
/// Delay before a claim that may not have the volume is looked at again.
const REFUSED_RETRY: Duration = Duration::from_secs(60);

/// Restores volumes.
pub struct Undelete {
    pub(super) caches: Caches,
    pub(super) live: Arc<Live>,
    pub(super) apply: Arc<Apply>,
    pub(super) clock: Clock,
    /// When the claim of a reserved volume is changed next.
    pub(super) touches: Mutex<HashMap<ObjectName, Instant>>,
}

impl Undelete {
    /// Reserves the volume for the claim. The annotation and `volumeName` of the claim are text of
    /// a tenant, so everything is read live: that the claim is the one that was seen, and that its
    /// namespace is the one in which the deleted claim was.
    pub async fn restore(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        claim: &ObjectName,
    ) -> Reconciled {
        let Some(record) = recorded(volume) else {
            return Ok(Requeue::OnEvent);
        };
        let (live, proof) = self.live.claim(claim).await?;
        let Some(live) = live.filter(|live| requested(live) == Some(&*name.name)) else {
            return Err(ReconcileError::new(
                "the claim no longer requests the volume",
            ));
        };
        let same = record.claim.namespace == *claim.namespace
            && self.live.is_same_namespace(record).await?;
        if !same {
            let why = "the volume in the trash belongs to a claim of another namespace, or of a \
                       namespace of this name that was deleted";
            self.announce_on(claim, &live, notices::not_restored(claim, why));
            return Ok(Requeue::After(REFUSED_RETRY, why.to_owned()));
        }
        let now = self.live.now().await?;
        let operations = patch::reserve(volume, record, claim, now);
        let action = action("Restore", Lane::Release, operations, Basis::Proof(proof));
        let applied = self
            .apply
            .perform(NAME, &target(name, volume), action, RESTORED)
            .await;
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
            let restored = notices::restored(claim);
            self.apply
                .announce(regarding(name, volume), restored.clone(), || {});
            self.announce_on(claim, &live, restored);
        }
        applied.settled()
    }

    /// Changes the claim from time to time until it is Bound. The binder's two workers may write
    /// the same object; the one that loses tries again when the claim changes, or after 15 s.
    pub async fn await_binding(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let Some((record, claim_ref)) = recorded(volume).zip(volume.claim_ref.as_ref()) else {
            return Ok(Requeue::OnEvent);
        };
        let now = self.clock.timestamp();
        let since = record.reserved_at.map(|since| now.duration_since(since));
        if since
            .and_then(|since| Duration::try_from(since).ok())
            .is_some_and(|since| since > RESERVED)
        {
            return self.put_back(name, volume).await;
        }
        let why = || format!("the claim {} is not Bound yet", claim_ref.name);
        if let Err(wait) = self.turn(name) {
            return Ok(Requeue::After(wait, why()));
        }
        let claim = self.caches.claims.read().get_fresh(&claim_ref.name);
        if let Some(claim) = claim {
            let target = Target {
                resource_version: Some(&claim.resource_version),
                ..Target::new(Kind::PersistentVolumeClaim, &claim_ref.name, &claim.uid)
            };
            let operations = patch::touch(&claim, now);
            let action = action("TouchClaim", Lane::Release, operations, Basis::Object);
            // A conflict is as good as a write: the claim has changed.
            self.apply.perform(NAME, &target, action, RESTORED).await;
        }
        Ok(Requeue::After(NEXT_TOUCH, why()))
    }

    /// Returns the volume to the trash, because the claim that it is reserved for does not exist or
    /// cannot be bound.
    pub async fn put_back(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let Some((record, claim_ref)) = recorded(volume).zip(volume.claim_ref.as_ref()) else {
            return Ok(Requeue::OnEvent);
        };
        let (live, proof) = self.live.claim(&claim_ref.name).await?;
        if let Some(claim) = live.filter(|claim| claim.is_bound_to(&name.name)) {
            let why = format!(
                "the claim {} with the uid {} is being bound",
                claim_ref.name, claim.uid
            );
            return Ok(Requeue::After(NEXT_TOUCH, why));
        }
        let operations = patch::put_back(volume, record);
        let action = action(
            "ReturnToTrash",
            Lane::Release,
            operations,
            Basis::Proof(proof),
        );
        let target = target(name, volume);
        let applied = self
            .apply
            .perform(NAME, &target, action, RETURNED_TO_TRASH)
            .await;
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
            let returned = notices::returned(name, record);
            self.apply
                .announce(regarding(name, volume), returned, || {});
        }
        applied.settled()
    }

    /// Forgets when the claim of the volume is changed next.
    pub fn forget(&self, volume: &ObjectName) {
        self.touches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(volume);
    }

    /// Returns whether the claim of the volume is to be changed now.
    ///
    /// # Errors
    /// How long to wait.
    fn turn(&self, volume: &ObjectName) -> Result<(), Duration> {
        let now = Instant::now();
        let mut touches = self.touches.lock().unwrap_or_else(PoisonError::into_inner);
        let next = *touches.entry(volume.clone()).or_insert(now + FIRST_TOUCH);
        if next > now {
            return Err(next - now);
        }
        touches.insert(volume.clone(), now + NEXT_TOUCH);
        Ok(())
    }

    fn announce_on(&self, name: &ObjectName, claim: &Claim, event: Announcement) {
        let regarding = Regarding {
            kind: Kind::PersistentVolumeClaim,
            name: name.clone(),
            uid: claim.uid.clone(),
        };
        self.apply.announce(regarding, event, || {});
    }
}
