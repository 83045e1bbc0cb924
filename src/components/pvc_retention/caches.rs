//! The watches of StatefulSets, their claims and their pods.

use super::{
    ownership::Owner,
    resolve_set::{Candidate, has_too_many_readings, owns, resolve_set},
    rule::{PodSlot, Step, Verdict, View, decide},
};
use crate::{
    cluster::{Feed, Feeds, Store, Target},
    objects::{
        Claim, ObjectName, Pod, StatefulSet,
        stateful_set::{Retention, ordinal, readings},
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::{slice::from_ref, sync::Arc};

/// The watches that pvc-retention reads. To prevent a deadlock, they are always locked in the order
/// of the fields.
#[derive(Clone)]
pub struct Caches {
    /// The watch of StatefulSets with claim templates.
    pub sets: Arc<Feed<StatefulSet>>,
    /// The watch of claims. Those with an ordinal are indexed by their names without it.
    pub claims: Arc<Feed<Claim>>,
    /// The watch of pods that name a claim or have an annotation of pvc-provisioner.
    pub pods: Arc<Feed<Pod>>,
}

impl From<&Feeds> for Caches {
    fn from(feeds: &Feeds) -> Self {
        Self {
            sets: feeds.sets.clone(),
            claims: feeds.claims.clone(),
            pods: feeds.pods.clone(),
        }
    }
}

/// A claim that may belong to a StatefulSet, and whether it certainly does.
#[derive(Clone, Debug)]
pub struct Member {
    /// Namespace and name of the claim.
    pub name: ObjectName,
    /// The claim, as the watch delivered it.
    pub claim: Arc<Claim>,
    /// Ordinal of the pod that the claim is for; not determined by [`Caches::marked`].
    pub ordinal: u32,
    /// Whether the claim certainly belongs to the StatefulSet. If not, the policy of the
    /// StatefulSet must not delete it.
    pub own: bool,
    /// Whether Volume Warden has written the claim since the watch delivered it, so that this copy
    /// must not be the base of a write.
    pub stale: bool,
}

impl Member {
    /// The claim as the target of a write or an Event.
    pub fn target(&self) -> Target<'_> {
        Target {
            finalizers: &self.claim.finalizers,
            ..Target::of(&self.name, &self.claim)
        }
    }

    /// Returns whether the claim belongs to this StatefulSet, or could be deleted with it: it has a
    /// reference to the StatefulSet or its pod, or the marker with the uid of the StatefulSet.
    pub fn concerns(&self, name: &ObjectName, set: &StatefulSet) -> bool {
        self.own || owns(set, &self.claim) || self.names_pod_of(name)
    }

    /// Returns whether the claim has a reference to the pod of its ordinal, with any uid.
    pub fn names_pod_of(&self, set: &ObjectName) -> bool {
        let pod = pod_name(&set.name, self.ordinal);
        let is_pod = |owner: &OwnerReference| Owner::pod(&pod, None).is_named_by(owner);
        self.claim.rare.owners.iter().any(is_pod)
    }
}

impl Caches {
    /// Every StatefulSet with claim templates.
    pub fn all_sets(&self) -> Vec<(ObjectName, Arc<StatefulSet>)> {
        let sets = self.sets.read();
        let all = sets.objects();
        all.map(|(name, set)| (name.clone(), set.clone())).collect()
    }

    /// Returns whether the pod that the claim is for exists, for any reading of the claim's name.
    pub fn has_pod(&self, member: &Member) -> bool {
        let pods = self.pods.read();
        let mut possible = readings(&member.name.name).map(|reading| {
            let pod = pod_name(reading.set, reading.ordinal);
            ObjectName::new(member.name.namespace.clone(), pod)
        });
        possible.any(|pod| pods.get(&pod).is_some())
    }

    /// Returns whether the claim still requires this step, by what the watches show now.
    pub fn still_requires(&self, name: &ObjectName, member: &Member, step: &Step) -> bool {
        let (sets, pods) = (self.sets.read(), self.pods.read());
        let set = sets.get(name).filter(|set| !set.deleting);
        set.is_some_and(|set| {
            let retention = set.retention.unwrap_or_default();
            let verdicts = judge(name, &set, retention, from_ref(member), &pods);
            verdicts.iter().all(|each| each.step == *step)
        })
    }

    /// Every claim with Volume Warden's marker, whether its StatefulSet exists or not.
    pub fn marked(&self) -> Vec<Member> {
        let claims = self.claims.read();
        let marked = claims
            .objects()
            .filter(|(_, claim)| claim.rare.scaled_with.is_some());
        let member = |(name, claim): (&ObjectName, &Arc<Claim>)| Member {
            name: name.clone(),
            claim: claim.clone(),
            ordinal: 0,
            own: false,
            stale: claims.get_fresh(name).is_none(),
        };
        marked.map(member).collect()
    }

    /// The claims of the StatefulSet, of every ordinal, and the claims named like them that have a
    /// reference to it or its pod, or its marker, although they may belong to another StatefulSet.
    pub fn members(&self, name: &ObjectName) -> Vec<Member> {
        let (sets, claims, pods) = (self.sets.read(), self.claims.read(), self.pods.read());
        let Some(set) = sets.get(name) else {
            return Vec::new();
        };
        let member = |claim_name: &ObjectName| {
            let claim = claims.get(claim_name)?;
            let owner = owner(claim_name, &claim, |set| sets.get(set), &pods);
            Some(Member {
                name: claim_name.clone(),
                stale: claims.get_fresh(claim_name).is_none(),
                claim,
                ordinal: ordinal(&claim_name.name)?.1,
                own: owner.as_ref() == Some(name),
            })
        };
        let concerns = |member: &Member| member.concerns(name, &set);
        let members = named_by(name, &set, &claims).filter_map(member);
        members.filter(concerns).collect()
    }
}

/// Returns the claims named `<template>-<set>-<ordinal>` for one of the StatefulSet's templates.
/// They may belong to another StatefulSet.
pub(super) fn named_by<'a>(
    name: &'a ObjectName,
    set: &'a StatefulSet,
    claims: &'a Store<Claim>,
) -> impl Iterator<Item = &'a ObjectName> {
    let templates = set.templates.iter();
    templates.flat_map(move |template| named_for(name, template, claims))
}

/// Returns the claims named `<template>-<set>-<ordinal>`.
pub(super) fn named_for<'a>(
    set: &ObjectName,
    template: &str,
    claims: &'a Store<Claim>,
) -> impl Iterator<Item = &'a ObjectName> + use<'a> {
    let common = format!("{template}-{}", set.name);
    let common = ObjectName::new(set.namespace.clone(), common);
    claims.names_referring_to(&common)
}

/// The StatefulSet that the claim belongs to; none if that is not certain. `set` looks up a
/// StatefulSet by its name.
pub(super) fn owner(
    name: &ObjectName,
    claim: &Claim,
    set: impl Fn(&ObjectName) -> Option<Arc<StatefulSet>>,
    pods: &Store<Pod>,
) -> Option<ObjectName> {
    if has_too_many_readings(&name.name) {
        return None;
    }
    let in_namespace = |other: &str| ObjectName::new(name.namespace.clone(), other);
    let candidates = readings(&name.name).filter_map(|reading| {
        let set = set(&in_namespace(reading.set))?;
        set.makes(reading.template)
            .then_some(Candidate { reading, set })
    });
    let mounts = |each: &Candidate<'_, Arc<StatefulSet>>| {
        let pod = in_namespace(&pod_name(each.reading.set, each.reading.ordinal));
        pods.get(&pod)
            .is_some_and(|pod| mounts(&pod, &each.set, &name.name))
    };
    let found = resolve_set(&name.name, claim, candidates.collect(), mounts)?;
    Some(in_namespace(found.reading.set))
}

/// Returns whether the StatefulSet controls the pod, by its uid, and the pod mounts the claim.
pub(super) fn mounts(pod: &Pod, set: &StatefulSet, claim: &str) -> bool {
    is_of(pod, set) && pod.claims().any(|named| **named == *claim)
}

fn is_of(pod: &Pod, set: &StatefulSet) -> bool {
    pod.stateful_set.as_ref() == Some(&set.uid)
}

/// The name of a StatefulSet's pod with this ordinal.
pub fn pod_name(set: &str, ordinal: u32) -> String {
    format!("{set}-{ordinal}")
}

/// The verdict on each claim of the StatefulSet, given these pods. A claim that may belong to
/// another StatefulSet is judged by the policy Retain, whatever the policy of this StatefulSet is.
pub fn judge(
    name: &ObjectName,
    set: &StatefulSet,
    retention: Retention,
    members: &[Member],
    pods: &Store<Pod>,
) -> Vec<Verdict> {
    let verdict = |member: &Member| {
        let pod_name = pod_name(&name.name, member.ordinal);
        let pod = pods.get(&ObjectName::new(name.namespace.clone(), pod_name.as_str()));
        decide(&View {
            claim: &member.claim,
            set_name: &name.name,
            set,
            pod_name: &pod_name,
            retention: if member.own {
                retention
            } else {
                Retention::default()
            },
            ordinal: member.ordinal,
            place: match &pod {
                None => PodSlot::Vacant,
                Some(pod) if is_of(pod, set) => PodSlot::Owned(&pod.uid),
                Some(pod) if pod.deleting => PodSlot::Ending(&pod.uid),
                Some(pod) => PodSlot::NotOwned(&pod.uid),
            },
        })
    };
    members.iter().map(verdict).collect()
}
