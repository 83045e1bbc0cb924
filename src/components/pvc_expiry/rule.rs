//! Decides whether a claim expires.

use super::restorable::{self, Obstacle};
use crate::objects::{
    Claim, StorageClass, Volume,
    claim::ClaimPhase,
    expiry::{self, ClaimExpiry},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Minimum time from the announcement that a claim expires to its deletion.
pub const NOTICE: Duration = Duration::from_secs(7 * 86_400);

/// What the rule reads.
pub struct View<'a> {
    /// The claim that is decided about.
    pub claim: &'a Claim,
    /// The volume that the claim names, if it exists.
    pub volume: Option<&'a Volume>,
    /// The StorageClass of the volume; none if it does not exist or has no annotation of Volume
    /// Warden.
    pub class: Option<&'a StorageClass>,
    /// Whether a pod names the claim. A pod that waits for a node counts, because it could not
    /// start without the claim. A finished pod counts, because pvc-protection, by default, keeps
    /// the claim until that pod is deleted.
    pub used: bool,
    /// Since when Volume Warden has watched the cluster without a break and without the end of a
    /// pod that used the claim although its condition Unused was True; none until the first lists
    /// of the watches are complete.
    pub observed: Option<Timestamp>,
    /// The present time by the clock of this process; before a deletion, the time of the API
    /// server if that is earlier.
    pub now: Timestamp,
}

/// What happens to a claim next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The claim is left unchanged, for this reason.
    Leave(LeaveReason),
    /// Volume Warden removes the announcement: the claim does not expire any more, for this reason,
    /// or, without a reason, only more than seven days from now.
    Cancel(Option<LeaveReason>),
    /// The claim is left unchanged until this time, when it is decided again.
    Wait(Timestamp),
    /// The claim is announced to expire at this time.
    Announce(Timestamp),
    /// The claim is due. The reconciler deletes it once two live evaluations have reached this
    /// decision, too.
    Expire,
}

/// Why a claim does not expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaveReason {
    /// Neither the claim nor its StorageClass has an expiry annotation, or the one that applies is
    /// `off` or zero.
    NotRequested,
    /// The annotation of the claim or, without one, of its StorageClass is neither a duration nor
    /// `off`.
    Unreadable,
    /// The claim is not Bound, or is being deleted.
    NotBound,
    /// The claim has an owner reference: the garbage collector deletes it after its owner.
    Owned,
    /// A pod names the claim, or its condition Unused is not True.
    Used,
    /// Not all watches of this replica are complete yet, so it is unknown for how long the claim
    /// has been unused.
    NotObserved,
    /// The data could not be restored after a deletion, for this reason.
    NoWindow(Obstacle),
}

/// Decides what happens next to the claim.
pub fn decide(view: &View<'_>) -> Decision {
    let announced = view.claim.rare.expiry.as_deref();
    let is_announced = view.claim.rare.is_announced();
    let due = match due(view) {
        Ok(due) => due,
        Err(LeaveReason::NotObserved) => return Decision::Leave(LeaveReason::NotObserved),
        Err(left) if is_announced && !view.claim.deleting => {
            return Decision::Cancel(Some(left));
        }
        Err(left) => return Decision::Leave(left),
    };
    let notice = before(due, NOTICE);
    if view.now < notice {
        return if is_announced {
            Decision::Cancel(None)
        } else {
            Decision::Wait(notice)
        };
    }
    if let Err(obstacle) = restorable::check(view.claim, view.volume, view.class) {
        let left = LeaveReason::NoWindow(obstacle);
        return if is_announced {
            Decision::Cancel(Some(left))
        } else {
            Decision::Leave(left)
        };
    }
    // An announced time before `due` is void, and the claim is announced again: since the
    // announcement, a pod has used the claim, a break of the watches has begun a new observation,
    // or a user has changed an annotation.
    match announced.and_then(ClaimExpiry::announced) {
        Some(at) if at >= due && view.now >= at => Decision::Expire,
        Some(at) if at >= due => Decision::Wait(at),
        _ => Decision::Announce(whole_seconds(due).max(earliest(view.now))),
    }
}

/// Returns the earliest time of expiry that may be announced now.
pub fn earliest(now: Timestamp) -> Timestamp {
    whole_seconds(after(now, NOTICE))
}

/// Returns the time at which the claim will have been unused and watched for as long as the
/// annotation requires, or why the claim does not expire.
fn due(view: &View<'_>) -> Result<Timestamp, LeaveReason> {
    let claim = view.claim;
    let own = claim.rare.expiry.as_deref();
    let of_class = view.class.and_then(|class| class.expire_unused.as_deref());
    let requested = own.and_then(|expiry| expiry.age.as_deref()).or(of_class);
    let age = expiry::parse(requested.ok_or(LeaveReason::NotRequested)?);
    let age = age
        .map_err(|_| LeaveReason::Unreadable)?
        .ok_or(LeaveReason::NotRequested)?;
    if claim.deleting || claim.phase != ClaimPhase::Bound {
        return Err(LeaveReason::NotBound);
    }
    if !claim.rare.owners.is_empty() {
        return Err(LeaveReason::Owned);
    }
    let unused = claim
        .unused
        .filter(|condition| condition.holds && !view.used);
    let unused = unused.and_then(|condition| Timestamp::from_second(condition.since.into()).ok());
    let unused = unused.ok_or(LeaveReason::Used)?;
    let observed = view.observed.ok_or(LeaveReason::NotObserved)?;
    Ok(after(unused.max(observed), age))
}

/// Adds the duration to the time. Returns the latest possible time if the sum is later.
fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// Rounds the time up to whole seconds, so that an announced time is never earlier.
fn whole_seconds(time: Timestamp) -> Timestamp {
    match time.subsec_nanosecond() {
        0 => time,
        _ => Timestamp::from_second(time.as_second().saturating_add(1)).unwrap_or(time),
    }
}

fn before(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.checked_sub(duration).unwrap_or(Timestamp::MIN)
}
