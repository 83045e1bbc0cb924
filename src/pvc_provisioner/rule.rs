//! The rule: what to do about one claim, be it there or asked for.

use super::reasons;
use crate::objects::{Claim, ControllerId};
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

/// The mark is written a moment before the claim is, by another clock. One that is further off was written on another claim, which this
/// one was restored or copied from.
const CLOCKS_APART: u64 = 600;

/// What is known of the claim's name.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The claim of that name, if there is one.
    pub claim: Option<&'a Claim>,
    /// The pods that name it.
    pub users: &'a [User],
    /// What the decision rests on need not be read live any more: that there is no claim; which pods name a claim that awaits one.
    pub confirmed: bool,
    /// For how long this process has known the claim to await its pod. Clocks of two machines need not agree.
    pub waited: Duration,
}

/// A pod that names the claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// It is being deleted.
    pub deleting: bool,
    /// It runs, or has ended.
    pub started: bool,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
    /// The volume for which it asks for the claim; nothing where it only uses it.
    pub asks: Option<Box<str>>,
}

impl User {
    /// It asks for the claim, and would use it.
    fn waits(&self) -> bool {
        self.asks.is_some() && !self.started && !self.deleting
    }
}

/// What the rule has to know of the options.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Ours.
    pub controller_id: &'a ControllerId,
    /// How long a claim may await its pod.
    pub grace: Duration,
    /// Only admission may create claims.
    pub admission_only: bool,
}

/// What the rule answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Nothing is to be done.
    Leave(&'static str),
    /// Read live what the decision rests on, and ask again.
    Confirm,
    /// Create it for this pod.
    Create(&'a User),
    /// This pod waits for it in vain.
    Refuse(&'a User, &'static str),
    /// Make the pod its owner: it was made for it.
    Give(&'a User),
    /// Take the mark off: the pod it was made for never came, but another one uses it.
    Keep,
    /// Delete it: the pod it was made for never came.
    Collect,
    /// Look again after so long.
    Later(Duration),
}

/// What to do about the claim.
pub fn decide<'a>(view: View<'a>, terms: Terms<'_>) -> Decision<'a> {
    match view.claim {
        None => absent(view, terms),
        Some(claim) if claim.deleting => match first(view.users, User::waits) {
            Some(user) => Decision::Refuse(user, reasons::STALE),
            None => Decision::Leave(reasons::STALE),
        },
        Some(claim) if awaits_pod(claim, terms.controller_id) => awaiting(view, terms),
        Some(_) => Decision::Leave(reasons::EXISTS),
    }
}

/// The claim was made by us at admission, for a pod that has not come yet. A claim that somebody owns goes with that owner, and one whose
/// mark is not its own was not marked by us.
pub fn awaits_pod(claim: &Claim, controller_id: &ControllerId) -> bool {
    let labels = claim.managed_by.as_ref();
    let label = labels.and_then(|labels| labels.provisioner.as_deref());
    let mark = claim.awaiting_pod.as_deref();
    let marked: Option<Timestamp> = mark.and_then(|mark| mark.parse().ok());
    let own = |marked: Timestamp| marked.as_second().abs_diff(claim.created) <= CLOCKS_APART;
    label == Some(controller_id.as_str()) && claim.owners.is_empty() && marked.is_some_and(own)
}

fn absent<'a>(view: View<'a>, terms: Terms<'_>) -> Decision<'a> {
    match first(view.users, User::waits) {
        None => Decision::Leave(reasons::NOT_WANTED),
        Some(_) if !view.confirmed => Decision::Confirm,
        Some(user) if terms.admission_only => Decision::Refuse(user, reasons::REQUESTER_UNKNOWN),
        Some(user) => Decision::Create(user),
    }
}

fn awaiting<'a>(view: View<'a>, terms: Terms<'_>) -> Decision<'a> {
    match first_asker(view.users) {
        Some(_) if !view.confirmed => return Decision::Confirm,
        Some(user) => return Decision::Give(user),
        None => {}
    }
    let left = terms.grace.saturating_sub(view.waited);
    match (left.is_zero(), view.confirmed) {
        (false, _) => Decision::Later(left),
        (true, false) => Decision::Confirm,
        (true, true) if view.users.is_empty() => Decision::Collect,
        (true, true) => Decision::Keep,
    }
}

/// The pod that a claim is given to which awaits one, if it is there.
pub fn first_asker(users: &[User]) -> Option<&User> {
    first(users, |user| user.asks.is_some())
}

/// The one that came first, of those that wait if there is one; one that is being deleted only if there is no other.
fn first(users: &[User], wanted: impl Fn(&User) -> bool) -> Option<&User> {
    users.iter().filter(|user| wanted(user)).min()
}
