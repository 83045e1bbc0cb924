//! The rule: what to do about one claim, be it there or asked for.

use super::{reasons, template::Template};
use crate::objects::{Claim, ControllerId};
use k8s_openapi::jiff::Timestamp;
use std::{sync::Arc, time::Duration};

/// The mark is written a moment before the claim is, by another clock. One that is further off was written on another claim, which this
/// one was restored or copied from. Both times are of the claim's creation: for how long the claim
/// keeps the mark does not matter.
const CLOCKS_APART: u64 = 600;

/// A pending claim that has not changed for this long may be written.
///
/// kube-controller-manager, the scheduler and the provisioner react to a change of a claim, and
/// write the claim at the version that they read. A write of another client in between makes
/// theirs fail with a conflict, and kube-controller-manager tries again at its next resync, up to
/// 15 s later. Between their read and their write lies little more than the wait for the rate
/// limit of their client, which is two minutes where 300 claims are created at once. Ten minutes
/// after the last change none is about to write.
pub const QUIET: Duration = Duration::from_secs(600);

/// What is known of the claim's name.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The claim of that name, if there is one.
    pub claim: Option<&'a Claim>,
    /// The pods that name it.
    pub users: &'a [User],
    /// What the decision rests on need not be read live any more: that there is no claim, and the
    /// pod to create it for; which pods name a claim that awaits one.
    pub confirmed: bool,
    /// What this process remembers of a claim that awaits its pod.
    pub wait: Wait,
}

impl<'a> View<'a> {
    /// The pod that the decision is for, of those that ask: where there is no claim, or not for
    /// long, only one that waits for it.
    pub fn candidate(&self) -> Option<&'a User> {
        let stays = self.claim.is_some_and(|claim| !claim.deleting);
        let wanted = |user: &&User| user.asks.is_some() && (stays || user.waits());
        let seen = self.wait.seen.as_deref();
        let users = self.users.iter().filter(wanted);
        users.min_by_key(|user| user.rank(seen))
    }
}

/// What this process remembers of a claim that awaits its pod. Durations are measured by the clock
/// of this process: clocks of two machines need not agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Since the first look at the claim.
    pub waited: Duration,
    /// Since the first look at the claim in its present version.
    pub unchanged: Duration,
    /// The uid of the pod that was last seen to ask for the claim. The claim was created for it,
    /// as far as this process knows.
    pub seen: Option<Box<str>>,
}

/// A pod that names the claim.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// It is being deleted.
    pub deleting: bool,
    /// It has ended: phase Succeeded or Failed.
    pub ended: bool,
    /// It runs, or has ended.
    pub started: bool,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
    /// The volume for which it asks for the claim; nothing where it only uses it. A pod whose
    /// template cannot be read asks for nothing.
    pub asks: Option<Box<str>>,
    /// What it asks the claim to be; nothing where that is not known any more, because it has
    /// ended.
    pub template: Option<Arc<Template>>,
}

/// See [`User::rank`].
pub type Rank<'a> = ([bool; 3], i64, [&'a str; 2]);

impl User {
    /// It asks for the claim, and would use it.
    fn waits(&self) -> bool {
        self.asks.is_some() && !self.started && !self.deleting
    }

    /// Of several pods that ask for a claim it belongs to the one with the least rank: to the one
    /// that was created first, unless another one was seen before. A pod that has ended, or is
    /// being deleted, is last: the claim would be deleted with it while another pod needs it.
    pub fn rank(&self, seen: Option<&str>) -> Rank<'_> {
        let other = seen != Some(&*self.uid);
        (
            [self.deleting, self.ended, other],
            self.created,
            [&self.name, &self.uid],
        )
    }
}

/// What the rule has to know of the options.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Ours.
    pub controller_id: &'a ControllerId,
    /// How long a claim may await a pod that was never seen.
    pub grace: Duration,
    /// Only admission may create claims.
    pub admission_only: bool,
}

/// What the rule answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision<'a> {
    /// Nothing is to be done.
    Leave(&'static str),
    /// Read live what the decision rests on, and ask again.
    Confirm,
    /// Create it for this pod.
    Create(&'a User),
    /// This pod waits for it in vain.
    Refuse(&'a User, &'static str),
    /// It was made for this pod, but must not be written yet: only remember that the pod was seen.
    Await(&'a User),
    /// Make the pod its owner: it was made for it.
    Give(&'a User),
    /// Take the mark off: the pod it was made for never came, or is gone, but another one uses it.
    Keep,
    /// Delete it: the pod it was made for never came, or is gone.
    Collect,
    /// Look again after so long.
    Later(Duration),
}

/// What to do about the claim.
pub fn decide<'a>(view: View<'a>, terms: Terms<'_>) -> Decision<'a> {
    match view.claim {
        None => absent(view, terms),
        Some(claim) if claim.deleting => match view.candidate() {
            Some(user) => Decision::Refuse(user, reasons::CLAIM_TERMINATING),
            None => Decision::Leave(reasons::CLAIM_TERMINATING),
        },
        Some(claim) if awaits_pod(claim, terms.controller_id) => {
            let writable = !claim.pending || view.wait.unchanged >= QUIET;
            awaiting(view, writable, terms)
        }
        Some(_) => Decision::Leave(reasons::EXISTS),
    }
}

/// Whether the decision about the claim depends on the pods that name it.
pub fn depends_on_users(claim: Option<&Claim>, controller_id: &ControllerId) -> bool {
    claim.is_none_or(|claim| claim.deleting || awaits_pod(claim, controller_id))
}

/// The claim was made by us at admission, and has no owner yet. A claim that somebody owns goes
/// with that owner, and one whose mark is not its own was not marked by us.
pub fn awaits_pod(claim: &Claim, controller_id: &ControllerId) -> bool {
    let labels = claim.managed_by.as_ref();
    let label = labels.and_then(|labels| labels.provisioner.as_deref());
    let mark = claim.awaiting_pod.as_deref();
    let marked: Option<Timestamp> = mark.and_then(|mark| mark.parse().ok());
    let own = |marked: Timestamp| marked.as_second().abs_diff(claim.created) <= CLOCKS_APART;
    label == Some(controller_id.as_str()) && claim.owners.is_empty() && marked.is_some_and(own)
}

fn absent<'a>(view: View<'a>, terms: Terms<'_>) -> Decision<'a> {
    match view.candidate() {
        None => Decision::Leave(reasons::NOT_WANTED),
        Some(_) if !view.confirmed => Decision::Confirm,
        Some(user) if terms.admission_only => Decision::Refuse(user, reasons::REQUESTER_UNKNOWN),
        Some(user) => Decision::Create(user),
    }
}

/// `writable`: no other controller is about to write the claim. A deletion need not wait for that:
/// what others were about to write has no use any more.
fn awaiting<'a>(view: View<'a>, writable: bool, terms: Terms<'_>) -> Decision<'a> {
    match view.candidate() {
        Some(user) if !writable => Decision::Await(user),
        Some(_) if !view.confirmed => Decision::Confirm,
        Some(user) => Decision::Give(user),
        None => unasked(view, writable, terms),
    }
}

/// No pod asks for the claim. The grace is for a pod that is still to be stored; one that was seen
/// was.
fn unasked<'a>(view: View<'a>, writable: bool, terms: Terms<'_>) -> Decision<'a> {
    let left = match view.wait.seen {
        Some(_) => Duration::ZERO,
        None => terms.grace.saturating_sub(view.wait.waited),
    };
    let used = !view.users.is_empty();
    match view.confirmed {
        _ if !left.is_zero() => Decision::Later(left),
        _ if used && !writable => Decision::Leave(reasons::CLAIM_PENDING),
        false => Decision::Confirm,
        true if used => Decision::Keep,
        true => Decision::Collect,
    }
}
