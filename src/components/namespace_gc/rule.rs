//! The rule: which namespaces of the backend a collection may delete.

use super::{Options, Scope};
use crate::{backend::Listed, hashing::HashSet};
use std::time::SystemTime;
use strum::{IntoStaticStr, VariantArray};

/// The verdict of a collection on one namespace of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
pub enum Verdict {
    /// Kubernetes has no namespace of that name, and nothing else protects it: it may be deleted.
    Orphan,
    /// Kubernetes has a namespace of that name.
    InKubernetes,
    /// A pattern of `--gc-protect` matches its name.
    Protected,
    /// The record does not show that this cluster ever had the namespace.
    NotSeen,
    /// The namespace was created or last changed within the grace period.
    TooYoung,
    /// A removal failed before; the reconciler retries on its own schedule.
    Waiting,
    /// The namespace is an orphan, but the collection already deletes its maximum number of
    /// namespaces.
    OverTheCap,
}

impl Verdict {
    /// The name of the verdict in metrics and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What a verdict depends on, besides the namespace in the list of the backend and the options.
#[derive(Debug)]
pub struct KnownNames<'a> {
    /// Names of namespaces that Kubernetes has, or had in an earlier LIST of the same collection.
    pub kubernetes: &'a HashSet<String>,
    /// Names of namespaces that this cluster once had; used only with `Scope::Seen`.
    pub seen: &'a HashSet<String>,
    /// Names of namespaces whose removal the reconciler retries.
    pub waiting: &'a HashSet<String>,
    /// The time by the clock of this process.
    pub now: SystemTime,
}

/// The verdict on one namespace of the backend.
///
/// `InKubernetes` takes precedence over all other verdicts, because users look for it in the
/// report.
pub fn judge(namespace: &Listed, known: &KnownNames<'_>, options: &Options) -> Verdict {
    let name = &namespace.name;
    if known.kubernetes.contains(name) {
        Verdict::InKubernetes
    } else if options.protects(name) {
        Verdict::Protected
    } else if options.scope == Scope::Seen && !known.seen.contains(name) {
        Verdict::NotSeen
    } else if known.waiting.contains(name) {
        Verdict::Waiting
    } else if is_young(namespace, known.now, options) {
        Verdict::TooYoung
    } else {
        Verdict::Orphan
    }
}

/// The verdicts on these namespaces, in their order. Orphans beyond the maximum number of deletions
/// are `OverTheCap`.
pub fn judge_all(namespaces: &[Listed], known: &KnownNames<'_>, options: &Options) -> Vec<Verdict> {
    let mut orphans = 0;
    let verdicts = namespaces.iter().map(|namespace| {
        let verdict = judge(namespace, known, options);
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

/// Whether the namespace is within the grace period. A time in the future shows that the clocks
/// differ, and counts as young. If the backend reports no time, the grace period does not apply.
pub fn is_young(namespace: &Listed, now: SystemTime, options: &Options) -> bool {
    namespace.since.is_some_and(|since| {
        let age = now.duration_since(since);
        age.map_or(!options.grace.is_zero(), |age| age < options.grace)
    })
}
