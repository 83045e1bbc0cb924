//! Which set a claim is of: its name may be read in several ways, and when in doubt the claim is nobody's.

use crate::objects::{
    StatefulSet,
    stateful_set::{Label, Reading},
};

/// A set that exists and makes claims of this name.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a, T> {
    /// How the claim's name is read.
    pub reading: Reading<'a>,
    /// The set.
    pub set: T,
}

/// The one set that the claim is of. Names decide; if they leave several, the one whose pod mounts the claim; if none does, the one
/// whose labels are on the claim. Two pods that mount it, or labels that fit two sets, decide nothing.
///
/// The labels of a claim are known only where its name can be read in several ways. There a set is out of the question whose labels
/// the claim has with other values: it is a claim of a set that is gone, or not told of yet.
pub fn whose<'a, T: AsRef<StatefulSet>>(
    candidates: Vec<Candidate<'a, T>>,
    labels: &[Label],
    mounts: impl Fn(&Candidate<'a, T>) -> bool,
) -> Option<Candidate<'a, T>> {
    let (mounting, mut others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(mounts);
    if !mounting.is_empty() {
        return only(mounting);
    }
    others.retain(|each| !contradict(labels, &each.set.as_ref().match_labels));
    if others.len() < 2 {
        return only(others);
    }
    let fits = |each: &Candidate<'a, T>| has_labels(labels, &each.set.as_ref().match_labels);
    only(others.into_iter().filter(fits))
}

fn contradict(labels: &[Label], wanted: &[Label]) -> bool {
    let other_value = |(key, value): &Label| labels.iter().any(|(k, v)| k == key && v != value);
    wanted.iter().any(other_value)
}

fn has_labels(labels: &[Label], wanted: &[Label]) -> bool {
    wanted.iter().all(|label| labels.contains(label))
}

fn only<T>(several: impl IntoIterator<Item = T>) -> Option<T> {
    let mut several = several.into_iter();
    let first = several.next();
    first.filter(|_| several.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn set(label: &str) -> Arc<StatefulSet> {
        Arc::new(StatefulSet {
            uid: label.into(),
            deleting: false,
            orphaning: false,
            replicas: 1,
            start: 0,
            retention: None,
            templates: Box::default(),
            match_labels: [("app".into(), label.into())].into(),
        })
    }

    /// Who of the sets with these labels has a claim with the label `on_claim`, while the pods of `mounting` mount it.
    fn chosen(sets: &[&str], on_claim: &str, mounting: &[&str]) -> Option<String> {
        let reading = Reading {
            template: "a",
            set: "b",
            ordinal: 0,
        };
        let candidates = sets.iter().map(|label| Candidate {
            reading,
            set: set(label),
        });
        let mut labels = vec![("other".into(), "x".into())];
        if !on_claim.is_empty() {
            labels.push(("app".into(), on_claim.into()));
        }
        let mounts = |each: &Candidate<'_, Arc<StatefulSet>>| mounting.contains(&&*each.set.uid);
        whose(candidates.collect(), &labels, mounts).map(|each| each.set.uid.to_string())
    }

    #[test]
    fn names_then_pods_then_labels() {
        for (sets, on_claim, mounting, expected) in [
            (vec![], "x", vec![], None),
            (vec!["x"], "x", vec![], Some("x")),
            (vec!["x"], "", vec![], Some("x")),
            (vec!["x"], "other", vec![], None),
            (vec!["x"], "other", vec!["x"], Some("x")),
            (vec!["x", "y"], "", vec![], None),
            (vec!["x", "y"], "y", vec![], Some("y")),
            (vec!["x", "y"], "y", vec!["x"], Some("x")),
            (vec!["x", "y"], "y", vec!["x", "y"], None),
            (vec!["x", "y"], "z", vec![], None),
            (vec!["x", "x"], "x", vec![], None),
        ] {
            assert_eq!(
                chosen(&sets, on_claim, &mounting).as_deref(),
                expected,
                "{sets:?} {on_claim} {mounting:?}"
            );
        }
    }
}
