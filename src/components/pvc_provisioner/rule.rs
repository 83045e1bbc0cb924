//! The rule of pvc-provisioner: decides whether a claim that exists or is requested is created,
//! given an owner, kept or deleted.

use super::{reasons, template::Template};
use crate::objects::{Claim, ControllerId, rare_fields::AwaitingPod};
use k8s_openapi::jiff::Timestamp;
use std::{sync::Arc, time::Duration};

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

/// The input of the rule for one claim name.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The claim with this name, if it exists.
    pub claim: Option<&'a Claim>,
    /// Pods that name the claim; if one of them requests it, the others may be missing.
    pub users: &'a [User],
    /// What this process remembers of a claim that awaits its pod.
    pub wait: Wait,
}

impl<'a> View<'a> {
    /// The pod that the decision concerns, among the pods that request the claim. If the claim
    /// does not exist or is being deleted, only a pod that has not started and is not being
    /// deleted is considered. A pod that has a node keeps a claim that is being deleted, and starts
    /// with it, so it does not wait for another one.
    pub fn candidate(&self) -> Option<&'a User> {
        let wanted = |user: &&User| match self.claim {
            None => user.waits(),
            Some(claim) if claim.deleting => user.waits() && !user.scheduled,
            Some(_) => user.asks.is_some(),
        };
        let seen = self.wait.seen.as_deref();
        let users = self.users.iter().filter(wanted);
        users.min_by_key(|user| user.rank(seen))
    }
}

/// What this process remembers of a claim that awaits its pod. Durations are measured by the clock
/// of this process, because clocks of two machines may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Time since this process first saw the claim.
    pub waited: Duration,
    /// Time since this process first saw the claim's current `resourceVersion`.
    pub unchanged: Duration,
    /// The uid of the pod that was last seen to request the claim. As far as this process knows,
    /// the claim was created for that pod.
    pub seen: Option<Box<str>>,
}

/// A pod that names the claim.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// The pod is being deleted; false if it has no annotation of pvc-provisioner.
    pub deleting: bool,
    /// The pod has ended: phase Succeeded or Failed; false if it has no annotation of
    /// pvc-provisioner.
    pub ended: bool,
    /// The phase of the pod is not Pending; false if it has no annotation of pvc-provisioner.
    pub started: bool,
    /// The pod has a node.
    pub scheduled: bool,
    /// Creation time of the pod, in seconds since 1970; 0 if it has no annotation of
    /// pvc-provisioner.
    pub created: i64,
    /// The pod's name.
    pub name: Box<str>,
    /// The pod's uid.
    pub uid: Box<str>,
    /// The volume for which the pod requests the claim; none if the pod only uses the claim. A pod
    /// whose template is invalid requests nothing.
    pub asks: Option<Box<str>>,
    /// The template of the claim; none if the pod does not request the claim, or has ended: the
    /// template of such a pod is not kept.
    pub template: Option<Arc<Template>>,
}

/// The sort key of [`User::rank`].
pub type Rank<'a> = ([bool; 3], i64, [&'a str; 2]);

impl User {
    /// Whether the pod requests the claim, has not started, and is not being deleted.
    fn waits(&self) -> bool {
        self.asks.is_some() && !self.started && !self.deleting
    }

    /// The rank of the pod. If several pods request a claim, the claim belongs to the pod with the
    /// lowest rank: the pod with the uid `seen`, which this process has seen before to request the
    /// claim, or else the pod that was created first. A pod that has ended or is being deleted
    /// ranks last, because the claim would be deleted with that pod while another pod needs the
    /// claim.
    pub fn rank(&self, seen: Option<&str>) -> Rank<'_> {
        let other = seen != Some(&*self.uid);
        (
            [self.deleting, self.ended, other],
            self.created,
            [&self.name, &self.uid],
        )
    }
}

/// The options that the rule depends on.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
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
    /// The claim exists and is being deleted, so it cannot be created for this pod now. Publish
    /// that to the author of the pod: at admission as a warning, otherwise as an Event on the pod
    /// with this reason.
    Refuse(&'a User, &'static str),
    /// Remember that this pod requests the claim, which awaits it. The pod is not written as the
    /// owner yet, because other controllers may be about to write the claim.
    Await(&'a User),
    /// Decide about the claim again after this time.
    Later(Duration),
    /// Write to the API server, as the value says, once that is confirmed.
    Act(Act),
}

/// The decision needs a live read before anything is written: of the absent claim and the pod to
/// create the claim for, or of the pods that name a claim which awaits its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unconfirmed;

/// What to write to the API server. In the reconciler, live reads have justified it.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'a> {
    /// Create the claim for this pod.
    Create(&'a User),
    /// Publish an Event that the claim is not created, because the user who created the pod is not
    /// known.
    RefuseRequester(&'a User),
    /// Make this pod, which requests the claim, its owner.
    Give(&'a User),
    /// Remove the marker and keep the claim, for this reason: a pod names the claim, but no pod
    /// requests it, or another client has given the claim an owner.
    Keep(&'static str),
    /// Delete the claim: no pod names it, and its pod is deleted or did not appear within the grace
    /// period.
    Collect,
}

/// Decides about a claim by the watches, which cannot prove that a claim is absent or unused.
pub fn decide<'a>(view: View<'a>, terms: Terms<'_>) -> Decision<'a, Unconfirmed> {
    match decide_live(view, terms) {
        Decision::Leave(reason) => Decision::Leave(reason),
        Decision::Refuse(user, reason) => Decision::Refuse(user, reason),
        Decision::Await(user) => Decision::Await(user),
        Decision::Later(left) => Decision::Later(left),
        Decision::Act(_) => Decision::Act(Unconfirmed),
    }
}

/// Decides about a claim by a view whose pods were read live or are under admission.
pub fn decide_live<'a>(view: View<'a>, terms: Terms<'_>) -> Decision<'a, Step<'a>> {
    match view.claim {
        None => absent(view, terms),
        Some(claim) if claim.deleting => match view.candidate() {
            Some(user) => Decision::Refuse(user, reasons::CLAIM_TERMINATING),
            None => Decision::Leave(reasons::CLAIM_TERMINATING),
        },
        Some(claim) if is_marked(claim, terms.controller_id) => {
            let writable = !claim.pending || view.wait.unchanged >= QUIET;
            match claim.rare.owners.is_empty() {
                true => awaiting(view, writable, terms),
                false => keep(writable, reasons::OWNED),
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
    let labels = claim.rare.managed_by.as_ref();
    let label = labels.and_then(|labels| labels.provisioner.as_deref());
    label == Some(controller_id.as_str())
        && claim.rare.awaiting_pod.as_ref().is_some_and(is_in_time)
}

/// Whether the time in the marker fits the creation of the claim; see [`CLOCKS_APART`].
pub fn is_in_time(awaiting: &AwaitingPod) -> bool {
    let marked: Result<Timestamp, _> = awaiting.mark.parse();
    marked.is_ok_and(|at| at.as_second().abs_diff(awaiting.created) <= CLOCKS_APART)
}

fn absent<'a>(view: View<'a>, terms: Terms<'_>) -> Decision<'a, Step<'a>> {
    match view.candidate() {
        None => Decision::Leave(reasons::NOT_WANTED),
        Some(user) if terms.admission_only => Decision::Act(Step::RefuseRequester(user)),
        Some(user) => Decision::Act(Step::Create(user)),
    }
}

/// Decides for a claim that awaits its pod. `writable` says that no other controller is about to
/// write the claim. The deletion of an orphaned claim does not wait for the writes of other
/// controllers, because nothing needs them any more.
fn awaiting<'a>(view: View<'a>, writable: bool, terms: Terms<'_>) -> Decision<'a, Step<'a>> {
    match view.candidate() {
        Some(user) if !writable => Decision::Await(user),
        Some(user) => Decision::Act(Step::Give(user)),
        None => unasked(view, writable, terms),
    }
}

/// Decides for a claim that no pod requests. The grace period is for a pod that is not stored yet,
/// so it does not apply if a pod that requests the claim was seen.
fn unasked<'a>(view: View<'a>, writable: bool, terms: Terms<'_>) -> Decision<'a, Step<'a>> {
    let left = match view.wait.seen {
        Some(_) => Duration::ZERO,
        None => terms.grace.saturating_sub(view.wait.waited),
    };
    let used = !view.users.is_empty();
    match used {
        _ if !left.is_zero() => Decision::Later(left),
        true => keep(writable, reasons::NAMED),
        false => Decision::Act(Step::Collect),
    }
}

fn keep<'a>(writable: bool, reason: &'static str) -> Decision<'a, Step<'a>> {
    match writable {
        true => Decision::Act(Step::Keep(reason)),
        false => Decision::Leave(reasons::CLAIM_PENDING),
    }
}
