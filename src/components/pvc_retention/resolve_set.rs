//! Finds the StatefulSet that a claim belongs to. The claim's name may have several readings,
//! which are ways to split it into template, StatefulSet and ordinal. If the StatefulSet is not
//! certain, the claim belongs to none.
//!
//! **Source.** `getPersistentVolumeClaims` in `pkg/controller/statefulset/stateful_set_utils.go` of
//! Kubernetes 1.34: every claim that the StatefulSet controller creates has all `matchLabels` of
//! its set, whatever labels the template has. A set that selects by `matchExpressions` alone puts
//! no label on its claims. Later the controller ignores the labels and finds claims by name.

use crate::objects::{
    Claim, StatefulSet,
    stateful_set::{Label, Reading, readings},
};

/// Maximum number of readings of a claim's name, because each reading costs a live read. A claim
/// whose name has more readings belongs to no StatefulSet.
pub const READINGS: usize = 32;

/// A StatefulSet that creates claims of this name. It exists, or did so less than a minute ago.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a, T> {
    /// The reading of the claim's name: template, StatefulSet and ordinal.
    pub reading: Reading<'a>,
    /// The StatefulSet with the name in this reading.
    pub set: T,
}

/// Maximum number of `matchLabels` that are compared with the labels of a claim. If a StatefulSet
/// has more, a claim whose name has several readings belongs to none: labels are not limited in
/// number, and a tenant chooses them.
const MAX_LABELS: usize = 256;

/// Returns whether the name of the claim has several readings, so that the name alone does not
/// identify the StatefulSet.
pub fn is_ambiguous(claim: &str) -> bool {
    readings(claim).nth(1).is_some()
}

/// Returns whether the name of the claim has more than [`READINGS`] readings, so that the claim
/// belongs to no StatefulSet.
pub fn has_too_many_readings(claim: &str) -> bool {
    readings(claim).nth(READINGS).is_some()
}

/// The StatefulSet that the claim with this name belongs to; none if that is not certain.
/// `candidates` are the StatefulSets that exist; `mounts` says whether the pod of a candidate
/// mounts the claim.
///
/// A name with one reading identifies the StatefulSet, as in Kubernetes. An ambiguous name needs
/// evidence: a pod that mounts the claim; else labels of the claim that include all `matchLabels`
/// of the StatefulSet; else an owner reference to the StatefulSet, or a marker with its uid. Labels
/// are no evidence for a StatefulSet without `matchLabels`. If two pods mount the claim, the result
/// is none; if the labels match several StatefulSets, the owner reference or the marker decides.
///
/// The result is only as reliable as `candidates`: a StatefulSet that a cache does not know yet, or
/// that could not be read, may be the right one.
pub fn resolve_set<'a, T: AsRef<StatefulSet>>(
    name: &str,
    claim: &Claim,
    candidates: Vec<Candidate<'a, T>>,
    mounts: impl Fn(&Candidate<'a, T>) -> bool,
) -> Option<Candidate<'a, T>> {
    if !is_ambiguous(name) {
        return only(candidates);
    }
    if has_too_many_readings(name) {
        return None;
    }
    let (mounting, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(mounts);
    if !mounting.is_empty() {
        return only(mounting);
    }
    let labels = |each: &Candidate<'a, T>| each.set.as_ref().match_labels.len();
    if others.iter().any(|each| labels(each) > MAX_LABELS) {
        return None;
    }
    let (labelled, others): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|each| has_labels(&claim.rare.labels, &each.set.as_ref().match_labels));
    let owns = |each: &Candidate<'a, T>| owns(each.set.as_ref(), claim);
    match labelled.len() {
        0 => only(others.into_iter().filter(owns)),
        1 => only(labelled),
        _ => only(labelled.into_iter().filter(owns)),
    }
}

/// Returns whether these labels of a claim include the wanted ones. The labels are sorted.
fn has_labels(labels: &[Label], wanted: &[Label]) -> bool {
    let has = |label: &Label| labels.binary_search(label).is_ok();
    !wanted.is_empty() && wanted.iter().all(has)
}

/// Returns whether an owner reference or the marker of the claim has the uid of the StatefulSet.
pub(super) fn owns(set: &StatefulSet, claim: &Claim) -> bool {
    let refers = claim.rare.owners.iter().any(|owner| set.uid == owner.uid);
    refers || claim.rare.scaled_with.as_ref() == Some(&set.uid)
}

fn only<T>(several: impl IntoIterator<Item = T>) -> Option<T> {
    let mut several = several.into_iter();
    let first = several.next();
    first.filter(|_| several.next().is_none())
}

#[cfg(test)]
#[path = "resolve_set_tests.rs"]
mod tests;
