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
    fitting::{fits, fitting, is_of, stays_reserved},
    identity::Identity,
    patch::{action, park, reservation},
    reasons::{CANNOT_RELEASE, PARKED, RESERVED},
    undelivered::{Undelivered, UndeliveredReservations},
};
use crate::{
    admission::{Answer, Request, Reviewed, Unavailable},
    cluster::{
        ALWAYS, Action, Applied, Apply, Basis, DEFAULT_CALL_TIMEOUT, OnRefusal, ReconcileError,
        Reconciled, Requeue, StillHolds, Target, server_time,
    },
    objects::{
        ObjectName, Volume,
        fit::{ClaimRequirements, ClaimRequirementsWire},
    },
};
use kube::Client;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Maximum number of parked volumes that one review or reconcile of a claim tries to reserve. The
/// next one is tried if the volume has changed, for example because another claim got it.
const TRIES: usize = 5;

/// Maximum age of the read of the namespace on which a reservation by the reconciler rests: the
/// write may wait for others, and meanwhile the namespace may be deleted and recreated.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Why a claim is refused: the uid of its namespace could not be read, or is not the recorded one,
/// and the reservation could not be ended.
const EARLIER: &str = "it may hold data of a deleted namespace of the same name";
/// Why a claim is refused: the volume does not fit it, and the reservation could not be ended.
const MISFIT: &str = "it was reserved for an earlier claim with another spec, and that reservation \
                      could not be ended";

/// Reserves parked volumes for claims.
#[derive(Clone)]
pub struct Reservations {
    /// The watches that pv-releaser reads.
    pub caches: Caches,
    /// Live reads of namespaces and claims.
    pub identity: Identity,
    /// Writes that reserve a volume for a claim, or park it again.
    pub apply: Arc<Apply>,
    /// Reads the time of the API server, for the times of reservations: another replica, whose
    /// clock may differ, compares them with the current time.
    pub client: Client,
    /// Namespaces in which no claim is refused.
    pub exempt: Arc<[String]>,
    /// The reservations that the watch has not delivered yet.
    pub reserved: Arc<UndeliveredReservations>,
}

/// Who waits for a read or a write: a reconciler, or an admission review until this instant.
#[derive(Clone, Copy)]
pub(super) enum Caller {
    Reconciler,
    Review(Instant),
}

impl Caller {
    /// The number of volumes that are tried, one after the other, while each has changed since the
    /// watch delivered it. The reconciler tries one: the change may be that a review reserved the
    /// volume for the same claim, and the next attempt then finds it.
    fn tries(self) -> usize {
        match self {
            Self::Reconciler => 1,
            Self::Review(_) => TRIES,
        }
    }

    fn limit(self) -> Duration {
        match self {
            Self::Reconciler => DEFAULT_CALL_TIMEOUT,
            Self::Review(until) => until.saturating_duration_since(Instant::now()),
        }
    }
}

impl Reservations {
    /// Reserves a parked volume for a claim that is about to be stored. A volume that is reserved
    /// for a claim of this name is parked first if that was one of an earlier namespace of the same
    /// name, or if the volume does not fit this claim: kube-controller-manager compares neither
    /// class, selector nor data source of a claim with a volume that is reserved for it. If that
    /// fails, or the uid of the namespace cannot be read while a volume is reserved for this name,
    /// the claim is refused, except in an exempt namespace.
    pub async fn review(&self, request: &Request) -> Reviewed {
        let requirements = ClaimRequirements::from(request.object::<ClaimRequirementsWire>()?);
        let name = ObjectName::new(request.namespace.as_str(), &*requirements.name);
        let reserved = self.caches.reserved_for(&name);
        let waiting = self.caches.waiting_in(&name.namespace);
        let just_now = self.undelivered_reservation(&name);
        let nothing_waits = waiting.is_empty() && just_now.is_none();
        if requirements.name.is_empty() || request.dry_run == Some(true) || nothing_waits {
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
            Err(error) if reserved.is_empty() && just_now.is_none() => {
                let why = format!(
                    "the namespace {} could not be read: {error}",
                    name.namespace
                );
                return Err(Unavailable::new(why));
            }
            Err(_) => return Ok(self.refused(&name, EARLIER)),
        };
        let reserved_wrongly =
            |undelivered: &Undelivered| undelivered.refusal_reason(&requirements, &uid);
        if let Some(why) = just_now.as_ref().and_then(reserved_wrongly) {
            return Ok(self.refused(&name, why));
        }
        let exists = self.caches.claims.read().get(&name).is_some();
        let stays = |each: &(_, _)| stays_reserved(each, &requirements, &uid);
        let (kept, ended): (Vec<_>, Vec<_>) = reserved.into_iter().partition(stays);
        let misfits = !ended.is_empty() && ended.iter().all(|(_, volume)| is_of(volume, &uid));
        if misfits && exists {
            let live = self
                .identity
                .claims
                .get(&name, Caller::Review(until).limit());
            // The reservation is that of the claim that exists: this one is not stored.
            if matches!(live.await, Ok(Some(_))) {
                return Ok(Answer::Allow);
            }
        }
        if let Some(why) = self.end(&ended, &uid, until).await {
            return Ok(self.refused(&name, why));
        }
        // The API server refuses a claim that exists only after this review. A client that repeats
        // such a creation would keep a volume reserved. If the watch shows a claim that is deleted
        // already, `reserve_for_claim` reserves the volume later.
        if kept.is_empty() && just_now.is_none() && !exists {
            let review = (Caller::Review(until), Basis::Object);
            self.reserve(&name, &requirements, &uid, review).await;
        }
        Ok(Answer::Allow)
    }

    /// Parks these reserved volumes. Returns why the claim is refused if one could not be parked.
    async fn end(
        &self,
        reserved: &[(ObjectName, Arc<Volume>)],
        namespace_uid: &str,
        until: Instant,
    ) -> Option<&'static str> {
        for (name, volume) in reserved {
            let parked = self.park(name, volume, Caller::Review(until)).await;
            if !parked.written() {
                return Some(if is_of(volume, namespace_uid) {
                    MISFIT
                } else {
                    EARLIER
                });
            }
        }
        None
    }

    fn refused(&self, name: &ObjectName, why: &str) -> Answer {
        if self.exempt.iter().any(|exempt| **exempt == *name.namespace) {
            return Answer::Allow;
        }
        let message = format!(
            "a volume is reserved for the claim {name}, but {why}, so the claim is not created. \
             Create the claim again, or give it another name."
        );
        Answer::deny(message)
    }

    /// Reserves a parked volume for a claim that admission missed, if neither a provisioner nor the
    /// scheduler has begun to find a volume for it.
    ///
    /// # Errors
    /// When an object could not be read, or the write failed.
    pub async fn reserve_for_claim(&self, name: &ObjectName) -> Reconciled {
        let claim = self.caches.claims.read().get(name);
        let claim = claim.filter(|claim| claim.awaits_volume());
        let Some(claim) = claim.filter(|_| !self.is_reserved(name)) else {
            return Ok(Requeue::OnEvent);
        };
        let parked = self.caches.parked_in(&name.namespace);
        if parked.is_empty() || self.caches.is_excluded(&name.namespace) {
            return Ok(Requeue::OnEvent);
        }
        // The reservation of a volume for a claim of a namespace that is being deleted would end at
        // once.
        let namespace = self.identity.active_namespace(&name.namespace).await;
        let namespace = namespace.map_err(unread)?;
        let requirements = self.identity.claims.get(name, DEFAULT_CALL_TIMEOUT).await;
        let requirements = requirements.map_err(unread)?;
        let requirements =
            requirements.filter(|requirements| claim.uid == requirements.uid && requirements.open);
        let proof = namespace.strict_proof(MAX_AGE);
        if let (Some(uid), Some(requirements)) = (namespace.value, requirements)
            && !self.is_reserved(name)
        {
            let reconciler = (Caller::Reconciler, Basis::Proof(proof));
            let reserved = self.reserve(name, &requirements, &uid, reconciler);
            return reserved.await.into_reconciled();
        }
        Ok(Requeue::OnEvent)
    }

    /// Returns whether a volume is reserved for the claim, also if the watch has not delivered that
    /// yet.
    fn is_reserved(&self, claim: &ObjectName) -> bool {
        !self.caches.reserved_for(claim).is_empty() || self.undelivered_reservation(claim).is_some()
    }

    /// Reserves the smallest parked volume of the namespace with this uid that fits the claim.
    /// Returns the outcome of the last write, or `Done` if no volume fits. A reconciler writes only
    /// as long as the watches show the claim that it has read, and no volume reserved for it.
    async fn reserve(
        &self,
        claim: &ObjectName,
        requirements: &ClaimRequirements,
        uid: &str,
        (caller, basis): (Caller, Basis),
    ) -> Applied {
        let mut applied = Applied::Done;
        let parked = fitting(self.caches.parked_in(&claim.namespace), requirements, uid);
        if parked.is_empty() {
            return applied;
        }
        let now = match server_time(&self.client, caller.limit()).await {
            Ok(now) => now,
            Err(error) => return Applied::Failed(error),
        };
        let waits = || {
            let found = self.caches.claims.read().get(claim);
            found.is_some_and(|found| found.uid == requirements.uid && found.awaits_volume())
                && !self.is_reserved(claim)
        };
        for (name, volume) in parked.into_iter().take(caller.tries()) {
            let refusal = OnRefusal::new(CANNOT_RELEASE);
            let operations = reservation(claim, now);
            let action = action("Reserve", refusal, operations, basis).of_existing();
            let write = self.write(&name, &volume, (action, RESERVED), (caller, &waits));
            applied = write.await;
            if applied.written() {
                let volumes = self.caches.volumes.read();
                self.reserved.record(claim, (&name, &volume), uid, &volumes);
            }
            if !matches!(applied, Applied::Stale) {
                break;
            }
        }
        applied
    }

    pub(super) async fn park(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        caller: Caller,
    ) -> Applied {
        let refusal = OnRefusal::new(CANNOT_RELEASE);
        let operations = park(volume, &self.caches.options);
        let action = action("Park", refusal, operations, Basis::Object);
        let action = match caller {
            Caller::Reconciler => action.of_existing(),
            // No claim gets the data of a volume that does not exist, so none is refused for it.
            Caller::Review(_) => action,
        };
        self.write(name, volume, (action, PARKED), (caller, ALWAYS))
            .await
    }

    /// Writes the volume. A reconciler does not, if `still_holds` returns false when it is the
    /// write's turn; a review does not wait for other writes.
    async fn write(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        (action, reason): (Action, &'static str),
        (caller, still_holds): (Caller, StillHolds<'_>),
    ) -> Applied {
        let target = Target::of(name, volume);
        let applied = match caller {
            Caller::Reconciler => {
                let write = self
                    .apply
                    .perform_if(NAME, &target, action, reason, still_holds);
                write.await
            }
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

    /// Returns the volume that this process has reserved for the claim, as long as the watch hides
    /// that volume or shows it as it was before.
    fn undelivered_reservation(&self, claim: &ObjectName) -> Option<Undelivered> {
        let volumes = self.caches.volumes.read();
        self.reserved.undelivered(claim, &volumes)
    }
}

impl Undelivered {
    /// Returns why a claim of the reserved name, in the namespace with this uid, must not get the
    /// volume; none if it may.
    fn refusal_reason(
        &self,
        requirements: &ClaimRequirements,
        namespace_uid: &str,
    ) -> Option<&'static str> {
        if *self.namespace_uid != *namespace_uid {
            return Some(EARLIER);
        }
        (!fits(&self.name, &self.volume, requirements)).then_some(MISFIT)
    }
}

/// The error that a namespace or claim could not be read.
pub(super) fn unread(error: kube::Error) -> ReconcileError {
    ReconcileError::unread("a namespace or claim")(error)
}
