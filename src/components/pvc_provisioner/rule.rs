//! The rule of pvc-provisioner: decides whether a claim that exists or is requested is created,
//! given an owner, kept or deleted.

use super::{
    reasons,
    view::{User, View},
};
use crate::objects::{Claim, ControllerId, claim::ClaimPhase, rare_fields::AwaitingPod};
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

/// Maximum difference, in seconds, between the time in the marker and the claim's creation. Volume
/// Warden writes the marker shortly before the API server creates the claim, by another clock. A
/// marker with a larger difference belongs to another claim, from which this claim was restored or
/// copied. Both times are set when the claim is created, so it does not matter for how long the
/// claim keeps the marker.
const CLOCKS_APART: u64 = 600;

/// How long a pending claim must not have changed before Volume Warden may patch it.
///
/// kube-controller-manager, the scheduler and the provisioner react to a change of a claim, and
/// write the claim at the version that they read. A write of another client in between makes that
/// write fail with a conflict, and kube-controller-manager retries at its next resync, up to 15 s
/// later. The time between read and write is little more than the wait for the client's rate
/// limit, which is two minutes when 300 claims are created at once. Ten minutes after the last
/// change none of these controllers is about to write.
pub const QUIET: Duration = Duration::from_secs(600);

/// The options that the rule depends on.
#[derive(Clone, Copy, Debug)]
pub struct RuleOptions<'a> {
    /// The controller id of this installation. Claims with another id are left unchanged.
    pub controller_id: &'a ControllerId,
    /// How long a claim that awaits its pod is kept at least while no pod that requests it was
    /// seen.
    pub grace: Duration,
    /// Whether only admission may create claims, because of `--authorize-requester=pod-creator`.
    pub admission_only: bool,
}

/// Decision about a claim. `Act` is [`Unconfirmed`] if live reads must confirm the decision first,
/// and a [`Step`] if it may be carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision<'a, Act> {
    /// Leave the claim unchanged, for this reason.
    Leave(&'static str),
    /// The claim exists and is being deleted, so it cannot be created now for the pods that need
    /// it. Publish that in an Event on each of these pods with this reason.
    Refuse(&'static str),
    /// Remember that this pod requests the claim, which awaits it. The pod is not written as the
    /// owner yet, because other controllers may be about to write the claim.
    Await(&'a User),
    /// Decide about the claim again after this time.
    Later(Duration),
    /// Write to the API server, as the value says, once that is confirmed.
    Act(Act),
}

impl<'a, Act> Decision<'a, Act> {
    fn map<Other>(self, act: impl FnOnce(Act) -> Other) -> Decision<'a, Other> {
        match self {
            Self::Leave(reason) => Decision::Leave(reason),
            Self::Refuse(reason) => Decision::Refuse(reason),
            Self::Await(user) => Decision::Await(user),
            Self::Later(left) => Decision::Later(left),
            Self::Act(what) => Decision::Act(act(what)),
        }
    }
}

/// The decision needs a live read before anything is written or remembered: of the absent claim and
/// the pod to create the claim for, or of the pods that name a claim which awaits its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unconfirmed;

/// What to write to the API server. In the reconciler, live reads have justified it.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'a> {
    /// Create the claim for this pod.
    Create(&'a User),
    /// Publish an Event that the claim is not created, because the users who created the pods are
    /// not known.
    RefuseRequester,
    /// Make this pod, which requests the claim, its owner.
    SetOwner(&'a User),
    /// Remove the marker and keep the claim, for this reason: a pod names the claim, but no pod
    /// requests it, or another client has given the claim an owner.
    RemoveMarker(&'static str),
    /// Delete the claim: no pod names it, and its pod is deleted or did not appear within the grace
    /// period.
    DeleteOrphan,
}

/// Decides about a claim by the watches, which cannot prove that a claim is absent or unused. Nor
/// can they prove that a pod exists: if the watch of pods is behind, the claim may have been
/// created for a pod that is not stored yet, and the cached pod may be an earlier one that is
/// deleted already.
pub fn decide<'a>(view: View<'a>, rule_options: RuleOptions<'_>) -> Decision<'a, Unconfirmed> {
    let seen = view.wait.seen.clone();
    match decide_live(view, rule_options) {
        Decision::Await(user) if seen.as_deref() != Some(&*user.uid) => Decision::Act(Unconfirmed),
        decision => decision.map(|_| Unconfirmed),
    }
}

/// Decides about a claim by a view whose pods were read live. If the candidate was read live, the
/// other pods may be those of the watches.
pub fn decide_live<'a>(view: View<'a>, rule_options: RuleOptions<'_>) -> Decision<'a, Step<'a>> {
    match view.claim {
        None => absent(view, rule_options),
        Some(claim) if claim.deleting => match view.candidate() {
            Some(_) => Decision::Refuse(reasons::CLAIM_TERMINATING),
            None => Decision::Leave(reasons::CLAIM_TERMINATING),
        },
        Some(claim) if is_marked(claim, rule_options.controller_id) => {
            let writable = claim.phase != ClaimPhase::Pending || view.wait.unchanged >= QUIET;
            if claim.rare.owners.is_empty() {
                awaiting(view, writable, rule_options)
            } else {
                keep(writable, reasons::OWNED)
            }
        }
        Some(_) => Decision::Leave(reasons::EXISTS),
    }
}

/// Whether the decision about the claim depends on the pods that name it.
pub fn depends_on_users(claim: Option<&Claim>, controller_id: &ControllerId) -> bool {
    claim.is_none_or(|claim| claim.deleting || awaits_pod(claim, controller_id))
}

/// Whether this installation created the claim at admission, and neither its pod nor another client
/// has given it an owner yet.
pub fn awaits_pod(claim: &Claim, controller_id: &ControllerId) -> bool {
    is_marked(claim, controller_id) && claim.rare.owners.is_empty()
}

/// Whether this installation created the claim at admission, and the claim still has the marker: it
/// has the label with this controller id and a valid marker. A marker that was copied from another
/// claim does not count.
pub fn is_marked(claim: &Claim, controller_id: &ControllerId) -> bool {
    label(claim) == Some(controller_id.as_str()) && has_valid_marker(claim)
}

/// Whether any installation created the claim at admission, and the claim still has the marker.
pub fn has_valid_marker(claim: &Claim) -> bool {
    label(claim).is_some() && claim.rare.awaiting_pod.as_ref().is_some_and(is_in_time)
}

fn label(claim: &Claim) -> Option<&str> {
    let labels = claim.rare.managed_by.as_ref();
    labels.and_then(|labels| labels.provisioner.as_deref())
}

/// Whether the time in the marker fits the creation of the claim; see [`CLOCKS_APART`].
fn is_in_time(awaiting: &AwaitingPod) -> bool {
    let marked: Result<Timestamp, _> = awaiting.mark.parse();
    marked.is_ok_and(|at| at.as_second().abs_diff(awaiting.created) <= CLOCKS_APART)
}

fn absent<'a>(view: View<'a>, rule_options: RuleOptions<'_>) -> Decision<'a, Step<'a>> {
    match view.candidate() {
        None => Decision::Leave(reasons::NOT_REQUESTED),
        Some(_) if rule_options.admission_only => Decision::Act(Step::RefuseRequester),
        Some(user) => Decision::Act(Step::Create(user)),
    }
}

/// Decides for a claim that awaits its pod. `writable` says that no other controller is about to
/// write the claim. The deletion of an orphaned claim does not wait for the writes of other
/// controllers, because nothing needs them any more.
fn awaiting<'a>(
    view: View<'a>,
    writable: bool,
    rule_options: RuleOptions<'_>,
) -> Decision<'a, Step<'a>> {
    match view.candidate() {
        Some(user) if !writable => Decision::Await(user),
        Some(user) => Decision::Act(Step::SetOwner(user)),
        None => unrequested(view, writable, rule_options),
    }
}

/// Decides for a claim that no pod requests. The grace period is for a pod that is not stored yet,
/// so it does not apply if a pod that requests the claim was seen.
fn unrequested<'a>(
    view: View<'a>,
    writable: bool,
    rule_options: RuleOptions<'_>,
) -> Decision<'a, Step<'a>> {
    let left = match view.wait.seen {
        Some(_) => Duration::ZERO,
        None => rule_options.grace.saturating_sub(view.wait.waited),
    };
    if !left.is_zero() {
        Decision::Later(left)
    } else if view.users.is_empty() {
        Decision::Act(Step::DeleteOrphan)
    } else {
        keep(writable, reasons::NAMED_BY_OTHER_POD)
    }
}

fn keep<'a>(writable: bool, reason: &'static str) -> Decision<'a, Step<'a>> {
    if writable {
        Decision::Act(Step::RemoveMarker(reason))
    } else {
        Decision::Leave(reasons::CLAIM_PENDING)
    }
}
