//! Calculates the owner references that the retention policy requires, as a pure function of the
//! claim, the StatefulSet and the pod.
//!
//! Source: `pkg/controller/statefulset/stateful_set_utils.go` of Kubernetes
//! (`isClaimOwnerUpToDate`, `updateClaimOwnerRefForSetAndPod`, `hasUnexpectedController`,
//! `hasStaleOwnerRef`, `hasNonControllerOwner`). The order of the tests matters and is that of
//! Kubernetes. Differences: a reference with the right uid but another apiVersion is repaired
//! (Kubernetes finds it by uid, removes by name, and so writes the claim forever), the reference to
//! a pod does not block the pod's deletion, and the rule also decides about claims whose pod does
//! not exist.

use crate::objects::{
    CompactText,
    stateful_set::{Policy, Retention},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// An object that may own a claim.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The API version of the owner: `apps/v1` or `v1`.
    pub api_version: &'static str,
    /// The kind of the owner: StatefulSet or Pod.
    pub kind: &'static str,
    /// `blockOwnerDeletion` of the reference: true for a StatefulSet, as in Kubernetes. False for a
    /// pod: with true, a pod that is deleted in the foreground, as with its StatefulSet, would wait
    /// for the deletion of the claim, which waits for the pod.
    pub blocks: bool,
    /// The name of the owner, whether it exists or not.
    pub name: &'a str,
    /// The uid of the owner. None for a pod that does not exist or that the StatefulSet does not
    /// control: then no reference matches.
    pub uid: Option<&'a CompactText>,
}

impl<'a> Owner<'a> {
    /// A StatefulSet as a possible owner.
    pub fn set(name: &'a str, uid: &'a CompactText) -> Self {
        Self {
            api_version: "apps/v1",
            kind: "StatefulSet",
            blocks: true,
            name,
            uid: Some(uid),
        }
    }

    /// A pod as a possible owner.
    pub fn pod(name: &'a str, uid: Option<&'a CompactText>) -> Self {
        Self {
            api_version: "v1",
            kind: "Pod",
            blocks: false,
            name,
            uid,
        }
    }

    /// Returns whether the reference names this object, with any uid.
    pub fn is_named_by(self, reference: &OwnerReference) -> bool {
        reference.api_version == self.api_version
            && reference.kind == self.kind
            && reference.name == self.name
    }

    /// Returns whether the reference has the uid of this object, whatever its name is.
    pub fn matches_uid(self, reference: &OwnerReference) -> bool {
        self.uid
            .is_some_and(|uid| !uid.is_empty() && *uid == reference.uid)
    }

    /// Returns whether the first reference with this object's name has another uid, or this object
    /// has none. If the referenced owner does not exist, the garbage collector removes the
    /// reference, or deletes the claim if it has no other owner.
    pub fn is_stale_in(self, references: &[OwnerReference]) -> bool {
        let named = references.iter().find(|each| self.is_named_by(each));
        named.is_some_and(|reference| !self.matches_uid(reference))
    }

    /// Returns whether the reference is as Volume Warden writes it. As in Kubernetes,
    /// `blockOwnerDeletion` is not compared: other writers may set it differently.
    fn is_canonical(self, reference: &OwnerReference) -> bool {
        self.is_named_by(reference)
            && self.matches_uid(reference)
            && reference.controller == Some(true)
    }

    fn reference(self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            name: self.name.to_owned(),
            uid: self.uid.map(ToString::to_string).unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(self.blocks),
        }
    }
}

/// The possible owners of a claim of a StatefulSet.
#[derive(Clone, Copy, Debug)]
pub struct Owners<'a> {
    /// The StatefulSet that creates claims of this name.
    pub set: Owner<'a>,
    /// The pod of the claim's ordinal.
    pub pod: Owner<'a>,
}

impl<'a> Owners<'a> {
    /// Returns whether a reference has the name of the StatefulSet or the pod, but another uid, or
    /// names a pod that the StatefulSet does not control.
    pub fn are_stale_in(self, references: &[OwnerReference]) -> bool {
        self.set.is_stale_in(references) || self.pod.is_stale_in(references)
    }

    /// Returns whether the policy must not be applied to the claim because of another owner: one
    /// with `controller: true`, or with the name of the StatefulSet or pod but another uid. False
    /// if `whenDeleted` and `whenScaled` are Retain, because nothing is then added to the claim.
    pub fn face_another_controller(
        self,
        retention: Retention,
        references: &[OwnerReference],
    ) -> bool {
        let foreign = |each: &OwnerReference| {
            !self.own(each) && (self.named(each) || each.controller == Some(true))
        };
        retention != Retention::default() && references.iter().any(foreign)
    }

    /// The owner references that the claim should have: those to other objects, unchanged, and the
    /// one to the StatefulSet or the pod if the policy requires it and no other controller prevents
    /// it. That one is appended if the claim does not have it yet.
    pub fn desired_references(
        self,
        retention: Retention,
        in_range: bool,
        references: &[OwnerReference],
    ) -> Vec<OwnerReference> {
        let contested = self.face_another_controller(retention, references);
        let owner = self.wanted(retention, in_range).filter(|_| !contested);
        let right = |each: &OwnerReference| owner.is_some_and(|owner| owner.is_canonical(each));
        let stays = |each: &&OwnerReference| right(each) || !(self.named(each) || self.own(each));
        let mut after: Vec<_> = references.iter().filter(stays).cloned().collect();
        if !after.iter().any(right) {
            after.extend(owner.map(Owner::reference));
        }
        after
    }

    /// The owner that the policy requires: the pod if the StatefulSet controls it, its ordinal is
    /// out of range and `whenScaled` is Delete; else the StatefulSet if `whenDeleted` is Delete;
    /// else none.
    fn wanted(self, retention: Retention, in_range: bool) -> Option<Owner<'a>> {
        let condemned = retention.when_scaled == Policy::Delete && !in_range;
        if condemned && self.pod.uid.is_some_and(|uid| !uid.is_empty()) {
            return Some(self.pod);
        }
        (retention.when_deleted == Policy::Delete).then_some(self.set)
    }

    /// Returns whether the reference has the uid of this StatefulSet or pod.
    pub fn own(self, reference: &OwnerReference) -> bool {
        self.set.matches_uid(reference) || self.pod.matches_uid(reference)
    }

    fn named(self, reference: &OwnerReference) -> bool {
        self.set.is_named_by(reference) || self.pod.is_named_by(reference)
    }
}
