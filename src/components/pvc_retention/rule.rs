//! The rule of pvc-retention: decides the fate of one claim of a StatefulSet.

use super::fate::Fate;
use super::ownership::{Owner, Owners};
use crate::objects::{
    Claim, CompactText, StatefulSet,
    stateful_set::{Policy, Retention},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// The claim and everything else that the rule reads.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The claim that is decided about.
    pub claim: &'a Claim,
    /// Name of the StatefulSet that creates claims of this name.
    pub set_name: &'a str,
    /// The StatefulSet that creates claims of this name.
    pub set: &'a StatefulSet,
    /// The name of the claim's pod: `<set>-<ordinal>`.
    pub pod_name: &'a str,
    /// The retention policy to apply: that of the StatefulSet, or Retain if the claim may belong to
    /// another StatefulSet.
    pub retention: Retention,
    /// The ordinal in the claim's name.
    pub ordinal: u32,
    /// Whether the claim's pod exists, and whether the StatefulSet controls it.
    pub place: PodSlot<'a>,
}

/// Whether the pod `<set>-<ordinal>` exists, and whether the StatefulSet controls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSlot<'a> {
    /// The pod does not exist.
    Vacant,
    /// The pod with this uid exists, but the StatefulSet does not control it, or does not control
    /// it yet.
    NotOwned(&'a CompactText),
    /// The pod with this uid is being deleted, and the StatefulSet does not control it: it is a pod
    /// of an earlier StatefulSet of that name. A StatefulSet does not adopt such a pod.
    ///
    /// Source: `adoptPod` in `pkg/controller/controller_ref_manager.go` of Kubernetes.
    Ending(&'a CompactText),
    /// The StatefulSet controls the pod, which has this uid.
    Owned(&'a CompactText),
}

/// Decision about a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The fate of the claim once the step is done.
    pub fate: Fate,
    /// The step that the policy requires.
    pub step: Step,
}

/// The write on a claim that the decision requires, if any.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Leave the claim unchanged.
    Leave,
    /// Write this update of the owner references and the marker of the claim.
    Update(Update),
    /// Delete the claim: its ordinal is out of range, and its pod does not exist, so the pod cannot
    /// become the owner.
    Delete,
}

/// The owner references and the marker that the claim should have.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// All owner references that the claim should have.
    pub owners: Vec<OwnerReference>,
    /// The change of Volume Warden's marker on the claim.
    pub mark: MarkerChange,
}

/// Change of the marker that permits Volume Warden to delete the claim once its ordinal is out of
/// range and its pod does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkerChange {
    /// The marker stays unchanged.
    Leave,
    /// The marker is added, with this uid of the StatefulSet.
    Put(CompactText),
    /// The marker is removed.
    Remove,
}

/// Decides the fate of the claim and the step to take.
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
    if owners.are_stale_in(&claim.rare.owners) {
        return leave(Fate::StaleOwner);
    }
    if view.is_left_behind() && view.may_be_deleted() {
        return Verdict {
            fate: Fate::DeletedWithPod,
            step: Step::Delete,
        };
    }
    let update = Update {
        owners: owners.desired_references(view.retention, view.in_range(), &claim.rare.owners),
        mark: view.mark(),
    };
    let fate = view.fate(&update.owners);
    let as_wanted = update.owners == *claim.rare.owners && update.mark == MarkerChange::Leave;
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
    /// The part of the update that only removes owner references and the marker. It adds nothing
    /// that could cause the deletion of the claim.
    pub fn removals(&self, claim: &Claim) -> Self {
        // The owners that stay are in their order, so the lists are compared in one pass: a claim
        // may have tens of thousands of references.
        let mut staying = self.owners.iter().peekable();
        let stays = |owner: &&OwnerReference| staying.next_if_eq(owner).is_some();
        Self {
            owners: claim.rare.owners.iter().filter(stays).cloned().collect(),
            mark: match self.mark {
                MarkerChange::Remove => MarkerChange::Remove,
                MarkerChange::Leave | MarkerChange::Put(_) => MarkerChange::Leave,
            },
        }
    }
}

impl Verdict {
    /// The update that keeps a claim which the garbage collector, or Volume Warden by its marker,
    /// might delete otherwise: an update that removes a reference or the marker, and after which
    /// the claim is not deleted with its pod. None for any other step.
    pub fn rescue(&self, claim: &Claim) -> Option<&Update> {
        let Step::Update(update) = &self.step else {
            return None;
        };
        let removals = update.removals(claim);
        let removes =
            removals.mark == MarkerChange::Remove || removals.owners != *claim.rare.owners;
        (removes && self.fate != Fate::DeletedWithPod).then_some(update)
    }

    /// Returns whether the step causes a deletion because of a pod, so that it requires a live
    /// read of the pods: it makes the pod the owner, or deletes the claim because the pod does not
    /// exist.
    pub fn rests_on_pods(&self) -> bool {
        self.fate == Fate::DeletedWithPod && self.step != Step::Leave
    }
}

impl<'a> View<'a> {
    fn owners(&self) -> Owners<'a> {
        let pod = match self.place {
            PodSlot::Owned(uid) => Some(uid),
            // The reference to such a pod is only removed: the garbage collector would delete the
            // claim after the pod.
            PodSlot::NotOwned(uid) | PodSlot::Ending(uid) if self.in_range() => Some(uid),
            PodSlot::Ending(uid) if self.retention.when_scaled == Policy::Retain => Some(uid),
            PodSlot::Vacant | PodSlot::NotOwned(_) | PodSlot::Ending(_) => None,
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
            .face_another_controller(self.retention, &self.claim.rare.owners)
    }

    /// Whether `whenScaled` is Delete, the claim's ordinal is out of range and its pod does not
    /// exist: the pod was scaled down and deleted, or never existed.
    fn is_left_behind(&self) -> bool {
        self.retention.when_scaled == Policy::Delete
            && !self.in_range()
            && self.place == PodSlot::Vacant
    }

    /// Whether Volume Warden may delete the claim: the claim has the marker, and no object but the
    /// StatefulSet owns it. A claim with another owner is kept, as the garbage collector would keep
    /// it.
    fn may_be_deleted(&self) -> bool {
        let owners = self.owners();
        self.is_marked()
            && self
                .claim
                .rare
                .owners
                .iter()
                .all(|each| owners.set.matches_uid(each))
    }

    fn is_marked(&self) -> bool {
        self.claim.rare.scaled_with.as_ref() == Some(&self.set.uid)
    }

    fn mark(&self) -> MarkerChange {
        let wanted = self.retention.when_scaled == Policy::Delete && !self.is_contested();
        match &self.claim.rare.scaled_with {
            Some(_) if !wanted => MarkerChange::Remove,
            _ if wanted && self.in_range() && !self.is_marked() => {
                MarkerChange::Put(self.set.uid.clone())
            }
            _ => MarkerChange::Leave,
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
