//! Reserves parked volumes for claims of their namespace, and parks a volume again if no claim uses
//! its reservation, or the namespace is deleted. A parked volume is Available, and its `claimRef`
//! names a claim that no client can create: so a claim can be bound to it only once Volume Warden
//! has reserved it for that claim.
//!
//! A reservation is a `claimRef` without uid. The webhook writes it before the API server stores
//! the claim: a provisioner that sees the claim before the reservation creates a second volume. The
//! reconciler writes it for a claim that the webhook missed.

use super::{
    NAME,
    caches::Caches,
    fitting::{fitting, is_of},
    identity::Identity,
    notices,
    patch::{action, park, regarding, reservation, written},
    reasons::{CANNOT_RELEASE, PARKED, RESERVED},
    rule::{Reservation, Verdict, decide_reservation},
};
use crate::{
    admission::{Answer, Request, Reviewed, Unavailable},
    clock::Clock,
    cluster::{Applied, Apply, Basis, OnRefusal, ReconcileError, Reconciled, Requeue, UNHURRIED},
    objects::{
        ObjectName, Volume,
        fit::{Need, NeedWire},
    },
};
use std::sync::Arc;
use tokio::time::Instant;

/// Maximum number of parked volumes that one review or reconcile of a claim tries to reserve. The
/// next one is tried if the volume has changed, for example because another claim got it.
const TRIES: usize = 5;

/// Reserves parked volumes for claims.
#[derive(Clone)]
pub struct Handover {
    /// The watches that pv-releaser reads.
    pub caches: Caches,
    /// Live reads of namespaces and claims.
    pub identity: Identity,
    /// Writes that reserve a volume for a claim, or park it again.
    pub apply: Arc<Apply>,
    /// The clock for the times of reservations.
    pub clock: Clock,
    /// Namespaces in which no claim is refused.
    pub exempt: Arc<[String]>,
}

/// Who waits for a write: a reconciler, or an admission review until this instant.
#[derive(Clone, Copy)]
enum Caller {
    Reconciler,
    Review(Instant),
}

impl Handover {
    /// Reserves a parked volume for a claim that is about to be stored. A volume that is reserved
    /// for a claim of this name in an earlier namespace of the same name is parked first. If that
    /// fails, or the uid of the namespace cannot be read while a volume is reserved for this name,
    /// the claim is refused, except in an exempt namespace.
    pub async fn review(&self, request: &Request) -> Reviewed {
        let need = Need::from(request.object::<NeedWire>()?);
        let name = ObjectName::new(request.namespace.as_str(), &*need.name);
        let reserved = self.caches.reserved_for(&name);
        let waiting = self.caches.waiting_in(&name.namespace);
        if need.name.is_empty() || request.dry_run == Some(true) || waiting.is_empty() {
            return Ok(Answer::Allow);
        }
        let until = Instant::now() + request.call_budget;
        let live = self
            .identity
            .namespace(&name.namespace, request.call_budget);
        let live = live.await.map_err(|error| error.to_string());
        let live = live.and_then(|uid| uid.ok_or("it does not exist".to_owned()));
        let uid = match live {
            Ok(uid) => uid,
            Err(error) if reserved.is_empty() => {
                let why = format!(
                    "the namespace {} could not be read: {error}",
                    name.namespace
                );
                return Err(Unavailable::new(why));
            }
            Err(_) => return Ok(self.refused(&name)),
        };
        for (volume_name, volume) in &reserved {
            if !is_of(volume, &uid) {
                let parked = self.park(volume_name, volume, Caller::Review(until)).await;
                if !parked.written() {
                    return Ok(self.refused(&name));
                }
            }
        }
        if !reserved.iter().any(|(_, volume)| is_of(volume, &uid)) {
            self.reserve(&name, &need, &uid, Caller::Review(until))
                .await;
        }
        Ok(Answer::Allow)
    }

    fn refused(&self, name: &ObjectName) -> Answer {
        if self.exempt.iter().any(|exempt| **exempt == *name.namespace) {
            return Answer::Allow;
        }
        let message = format!(
            "a volume that is reserved for the claim {name} may hold data of an earlier namespace \
             {}, which was deleted, so the claim is not created. Create the claim again, or give \
             it another name.",
            name.namespace
        );
        Answer::deny(message)
    }

    /// Reserves a parked volume for a claim that admission missed, if neither a provisioner nor the
    /// scheduler has begun to find a volume for it.
    ///
    /// # Errors
    /// When an object could not be read, or the write failed.
    pub async fn serve(&self, name: &ObjectName) -> Reconciled {
        let claim = self.caches.claims.read().get(name);
        let claim = claim.filter(|claim| claim.awaits_volume());
        let reserved = !self.caches.reserved_for(name).is_empty();
        let Some(claim) = claim.filter(|_| !reserved) else {
            return Ok(Requeue::OnEvent);
        };
        let parked = self.caches.parked_in(&name.namespace);
        if parked.is_empty() || self.caches.is_excluded(&name.namespace) {
            return Ok(Requeue::OnEvent);
        }
        let namespace = self.identity.namespace(&name.namespace, UNHURRIED).await;
        let need = self.identity.claims.get(name, UNHURRIED).await;
        let need = need.map_err(unread)?;
        let need = need.filter(|need| claim.uid == need.uid && need.open);
        if let (Some(uid), Some(need)) = (namespace.map_err(unread)?, need) {
            let reserved = self.reserve(name, &need, &uid, Caller::Reconciler);
            return reserved.await.settled();
        }
        Ok(Requeue::OnEvent)
    }

    /// Parks a reserved volume again, so that another claim can get it, if [`decide_reservation`]
    /// says so.
    ///
    /// # Errors
    /// When an object could not be read, or the write failed.
    pub async fn check(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let (Some(claim), Some(record)) = (volume.reserved_for(), volume.record()) else {
            return Ok(Requeue::OnEvent);
        };
        let watched = self.caches.watches_namespace(&record.namespace);
        if !watched || self.caches.is_never_changed(volume) {
            return Ok(Requeue::OnEvent);
        }
        let namespace = self.identity.namespace(&record.namespace, UNHURRIED).await;
        let live = self.identity.claims.get(&claim.name, UNHURRIED).await;
        let (namespace, live) = (namespace.map_err(unread)?, live.map_err(unread)?);
        let reserved_at = volume
            .reuse
            .as_ref()
            .and_then(|all| all.reserved_at.as_deref());
        let verdict = decide_reservation(&Reservation {
            volume: &name.name,
            record,
            namespace: namespace.as_deref(),
            reserved_at: reserved_at.map(|text| text.parse().unwrap_or_default()),
            claim: live.as_ref(),
            now: self.clock.timestamp(),
        });
        match verdict {
            Verdict::Keep => Ok(Requeue::OnEvent),
            Verdict::Later(delay) => Ok(Requeue::After(
                delay,
                format!("waiting until the claim {} is stored", claim.name),
            )),
            Verdict::Park => {
                let parked = self.park(name, volume, Caller::Reconciler).await;
                if parked.written() && reserved_at.is_none() {
                    let event = notices::parked(volume, record);
                    self.apply.announce(regarding(name, volume), event, || {});
                }
                parked.settled()
            }
        }
    }

    /// Reserves the smallest parked volume of the namespace with this uid that fits the claim.
    /// Returns the outcome of the last write, or `Done` if no volume fits.
    async fn reserve(&self, claim: &ObjectName, need: &Need, uid: &str, caller: Caller) -> Applied {
        let mut applied = Applied::Done;
        let parked = self.caches.parked_in(&claim.namespace);
        for (name, volume) in fitting(parked, need, uid).into_iter().take(TRIES) {
            let operations = reservation(claim, self.clock.timestamp());
            let write = self.write(&name, &volume, ("Reserve", operations, RESERVED), caller);
            applied = write.await;
            if !matches!(applied, Applied::Stale) {
                break;
            }
        }
        applied
    }

    async fn park(&self, name: &ObjectName, volume: &Arc<Volume>, caller: Caller) -> Applied {
        let operations = park(volume, &self.caches.options);
        self.write(name, volume, ("Park", operations, PARKED), caller)
            .await
    }

    async fn write(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        (verb, operations, reason): (&'static str, Vec<json_patch::PatchOperation>, &'static str),
        caller: Caller,
    ) -> Applied {
        let refusal = OnRefusal::new(CANNOT_RELEASE);
        let action = action(verb, refusal, operations, Basis::Object);
        let target = written(name, volume);
        let applied = match caller {
            Caller::Reconciler => self.apply.perform(NAME, &target, action, reason).await,
            Caller::Review(until) => {
                let write = self
                    .apply
                    .perform_in_review(NAME, &target, action, reason, until);
                write.await
            }
        };
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
        }
        applied
    }
}

fn unread(error: kube::Error) -> ReconcileError {
    ReconcileError::unread("a namespace or claim", &error)
}
