//! What the rule of pvc-provisioner reads about one claim name: the claim, and the pods that name
//! it.

use super::template::Template;
use crate::objects::Claim;
use std::{slice::from_ref, sync::Arc, time::Duration};

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
    /// The pods that need the claim, among those that request it. If the claim does not exist or is
    /// being deleted, these are only pods that have not started and are not being deleted. A pod
    /// that has a node keeps a claim that is being deleted, and starts with it, so it does not wait
    /// for another one.
    pub fn candidates(&self) -> impl Iterator<Item = &'a User> {
        let claim = self.claim;
        self.users.iter().filter(move |user| match claim {
            None => user.waits(),
            Some(claim) if claim.deleting => user.waits() && !user.scheduled,
            Some(_) => user.requested_volume.is_some(),
        })
    }

    /// The pod that a claim is created for or given to: the candidate with the lowest rank.
    pub fn candidate(&self) -> Option<&'a User> {
        let seen = self.wait.seen.as_deref();
        self.candidates().min_by_key(|user| user.rank(seen))
    }

    /// Whether a live read of the candidate shows that the pod is still the candidate among these
    /// users: it still requests the claim, and its rank is the same.
    pub fn is_still_candidate(&self, live: &User) -> bool {
        let alone = View {
            users: from_ref(live),
            ..self.clone()
        };
        let ranks_the_same = |candidate: &User| candidate.rank(None) == live.rank(None);
        self.candidate().is_some_and(ranks_the_same) && alone.candidate().is_some()
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
    /// The uid of the pod that a live read last showed to request the claim. As far as this process
    /// knows, the claim was created for that pod.
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
    pub requested_volume: Option<Box<str>>,
    /// The template of the claim; none if the pod does not request the claim, or has ended: the
    /// template of such a pod is not kept.
    pub template: Option<Arc<Template>>,
}

/// The sort key of [`User::rank`].
pub type Rank<'a> = ([bool; 3], i64, [&'a str; 2]);

impl User {
    /// Whether the pod requests the claim, has not started, and is not being deleted.
    fn waits(&self) -> bool {
        self.requested_volume.is_some() && !self.started && !self.deleting
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
