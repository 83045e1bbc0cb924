//! Which namespaces of the backend may go, by what is known of them and of Kubernetes.

use super::{Options, Scope};
use crate::backend::Listed;
use std::{collections::HashSet, time::SystemTime};
use strum::{IntoStaticStr, VariantArray};

/// What a collection comes to of one namespace of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
pub enum Verdict {
    /// It may go: Kubernetes has no namespace of that name, and nothing speaks for keeping it.
    Orphan,
    /// Kubernetes has a namespace of that name.
    InKubernetes,
    /// Its name is among those that never go.
    Protected,
    /// It cannot be told that this cluster ever had it.
    NotSeen,
    /// The backend has had it, or it was last changed, for too short a time.
    TooYoung,
    /// It could not be removed before, and is tried again on a schedule of its own.
    Waiting,
    /// It may go, but more may than one collection takes.
    OverTheCap,
}

impl Verdict {
    /// For metrics and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What is known beside the backend's own list.
#[derive(Debug)]
pub struct World<'a> {
    /// Names that Kubernetes has, or had at an earlier look of the same collection.
    pub kubernetes: &'a HashSet<String>,
    /// Names that this cluster once had, where that counts.
    pub seen: &'a HashSet<String>,
    /// Names that are tried again by themselves.
    pub waiting: &'a HashSet<String>,
    /// By our own clock.
    pub now: SystemTime,
}

/// The verdict on one namespace.
///
/// What Kubernetes has is said first, because it is what users look for.
pub fn judge(namespace: &Listed, world: &World<'_>, options: &Options) -> Verdict {
    let name = &namespace.name;
    if world.kubernetes.contains(name) {
        Verdict::InKubernetes
    } else if options.protects(name) {
        Verdict::Protected
    } else if options.scope == Scope::Seen && !world.seen.contains(name) {
        Verdict::NotSeen
    } else if world.waiting.contains(name) {
        Verdict::Waiting
    } else if is_young(namespace, world.now, options) {
        Verdict::TooYoung
    } else {
        Verdict::Orphan
    }
}

/// The verdict on each, in the order given. The first orphans fill the cap, the others are over it.
pub fn judge_all(namespaces: &[Listed], world: &World<'_>, options: &Options) -> Vec<Verdict> {
    let mut orphans = 0;
    let verdicts = namespaces.iter().map(|namespace| {
        let verdict = judge(namespace, world, options);
        orphans += usize::from(verdict == Verdict::Orphan);
        let over = options.max_deletions > 0 && orphans > options.max_deletions;
        if over && verdict == Verdict::Orphan {
            Verdict::OverTheCap
        } else {
            verdict
        }
    });
    verdicts.collect()
}

/// A time in the future says that the clocks differ, and nothing of the age. Where the backend does not tell, no age is asked for.
pub fn is_young(namespace: &Listed, now: SystemTime, options: &Options) -> bool {
    namespace.since.is_some_and(|since| {
        let age = now.duration_since(since);
        age.map_or(!options.grace.is_zero(), |age| age < options.grace)
    })
}
