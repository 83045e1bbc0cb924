//! The rule: what becomes of one claim of a StatefulSet.

use super::ownership::{Owner, Owners};
use crate::objects::{
    Claim, StatefulSet,
    stateful_set::{Policy, Retention},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use strum::{IntoStaticStr, VariantArray};

/// What the rule looks at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// Name of the set that makes claims of this name.
    pub set_name: &'a str,
    /// That set.
    pub set: &'a StatefulSet,
    /// `<set>-<ordinal>`
    pub pod_name: &'a str,
    /// What is to become of its claims.
    pub retention: Retention,
    /// The claim's ordinal.
    pub ordinal: u32,
    /// Whether there is a pod of that name.
    pub place: PodSlot<'a>,
}

/// Where the pod `<set>-<ordinal>` is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSlot<'a> {
    /// There is none.
    Vacant,
    /// There is one, but the set does not control it (yet).
    NotOwned,
    /// The set's, by its uid.
    Owned(&'a str),
}

/// What becomes of a claim as things are. The names are event reasons, log fields and metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
pub enum Fate {
    /// It outlives set and pod.
    Retained,
    /// The garbage collector deletes it after the set.
    DeletedWithSet,
    /// The garbage collector deletes it after its condemned pod.
    DeletedWithPod,
    /// It belongs to an earlier set or pod of that name: hands off, the garbage collector knows what to do.
    StaleOwner,
    /// Somebody else controls it: hands off.
    ConflictingController,
    /// Scaled away, without a pod and without our mark: it may have been put there for later, or be of days when the policy was
    /// Retain. Nobody deletes it.
    ScaledDownUnmarked,
    /// It is being deleted, and no pod can be created before it is gone.
    PodBlockedByClaim,
    /// It is being deleted.
    Terminating,
}

impl Fate {
    /// For events, the log and the metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What the rule answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What becomes of the claim once the step is done.
    pub fate: Fate,
    /// What is to be done for it.
    pub step: Step,
}

/// What is to be done with a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing.
    Leave,
    /// Change what it says of itself.
    Update(Update),
    /// Delete it: it was scaled away and its pod was gone before it could be told to go with it.
    Delete,
}

/// The claim as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// All owner references.
    pub owners: Vec<OwnerReference>,
    /// Our mark.
    pub mark: Mark,
}

/// What to do with the mark that says that the claim may be deleted once it is scaled away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// As it is.
    Leave,
    /// With this uid, the set's.
    Put(Box<str>),
    /// Not there.
    Remove,
}

/// What becomes of the claim, and what to do for it.
pub fn decide(view: &View<'_>) -> Verdict {
    let claim = view.claim;
    let owners = view.owners();
    if claim.deleting {
        let waited_for = view.in_range() && view.place == PodSlot::Vacant;
        return leave(if waited_for {
            Fate::PodBlockedByClaim
        } else {
            Fate::Terminating
        });
    }
    if owners.are_stale_in(&claim.owners) {
        return leave(Fate::StaleOwner);
    }
    if view.is_left_behind() && view.may_be_deleted() {
        return Verdict {
            fate: Fate::DeletedWithPod,
            step: Step::Delete,
        };
    }
    let update = Update {
        owners: owners.desired_references(view.retention, view.in_range(), &claim.owners),
        mark: view.mark(),
    };
    let fate = view.fate(&update.owners);
    let as_wanted = update.owners == *claim.owners && update.mark == Mark::Leave;
    Verdict {
        fate,
        step: if as_wanted {
            Step::Leave
        } else {
            Step::Update(update)
        },
    }
}

fn leave(fate: Fate) -> Verdict {
    Verdict {
        fate,
        step: Step::Leave,
    }
}

impl Update {
    /// The part of the update that only removes: nothing by which the claim could be deleted is added.
    pub fn removals(&self, claim: &Claim) -> Self {
        let stays = |owner: &&OwnerReference| self.owners.contains(owner);
        Self {
            owners: claim.owners.iter().filter(stays).cloned().collect(),
            mark: match self.mark {
                Mark::Remove => Mark::Remove,
                Mark::Leave | Mark::Put(_) => Mark::Leave,
            },
        }
    }
}

impl Verdict {
    /// The update that keeps a claim which the garbage collector, or Volume Warden by its mark, would delete otherwise: a reference
    /// or the mark has to be removed, and the claim is not to follow its pod.
    pub fn rescue(&self, claim: &Claim) -> Option<&Update> {
        let Step::Update(update) = &self.step else {
            return None;
        };
        let removals = update.removals(claim);
        let removes = removals.mark == Mark::Remove || removals.owners != *claim.owners;
        (removes && self.fate != Fate::DeletedWithPod).then_some(update)
    }

    /// Whether it rests on whether a pod exists, so that the pods have to be read live before it is carried out.
    pub fn rests_on_pods(&self) -> bool {
        self.fate == Fate::DeletedWithPod && self.step != Step::Leave
    }
}

impl<'a> View<'a> {
    fn owners(&self) -> Owners<'a> {
        let pod = match self.place {
            PodSlot::Owned(uid) => uid,
            PodSlot::Vacant | PodSlot::NotOwned => "",
        };
        Owners {
            set: Owner::set(self.set_name, &self.set.uid),
            pod: Owner::pod(self.pod_name, pod),
        }
    }

    fn in_range(&self) -> bool {
        self.set.has(self.ordinal)
    }

    fn is_contested(&self) -> bool {
        self.owners()
            .face_another_controller(self.retention, &self.claim.owners)
    }

    /// Its pod was scaled away under a policy that deletes, and is gone.
    fn is_left_behind(&self) -> bool {
        self.retention.when_scaled == Policy::Delete
            && !self.in_range()
            && self.place == PodSlot::Vacant
    }

    /// By our mark, and because nobody but the set owns it: the garbage collector too would keep it for any other owner.
    fn may_be_deleted(&self) -> bool {
        let owners = self.owners();
        self.is_marked()
            && self
                .claim
                .owners
                .iter()
                .all(|each| owners.set.matches_uid(each))
    }

    fn is_marked(&self) -> bool {
        self.claim.scaled_with.as_deref() == Some(&*self.set.uid)
    }

    fn mark(&self) -> Mark {
        let wanted = self.retention.when_scaled == Policy::Delete && !self.is_contested();
        match &self.claim.scaled_with {
            Some(_) if !wanted => Mark::Remove,
            _ if wanted && self.in_range() && !self.is_marked() => Mark::Put(self.set.uid.clone()),
            _ => Mark::Leave,
        }
    }

    fn fate(&self, after: &[OwnerReference]) -> Fate {
        let owners = self.owners();
        if self.is_contested() {
            Fate::ConflictingController
        } else if self.is_left_behind() {
            Fate::ScaledDownUnmarked
        } else if after.iter().any(|each| owners.pod.matches_uid(each)) {
            Fate::DeletedWithPod
        } else if after.iter().any(|each| owners.set.matches_uid(each)) {
            Fate::DeletedWithSet
        } else {
            Fate::Retained
        }
    }
}
