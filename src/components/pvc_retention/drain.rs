//! Decides which writes of pvc-retention `volume-warden drain` reverts. The result equals the
//! policy Retain of KEP-1847: no claim is deleted with its StatefulSet or pod, except the claims
//! whose owner references [`owner_cleanups`] leaves unchanged.

use super::{
    caches::{Caches, Member, judge},
    rule::{MarkerChange, Step, Update},
};
use crate::hashing::HashMap;
use crate::objects::{ObjectName, StatefulSet, stateful_set::Retention};

/// The claims to change, and the change of each. With `in_tree`, owner references of claims whose
/// pod exists are left unchanged, because Kubernetes' own controller manages these claims.
pub fn owner_cleanups(caches: &Caches, in_tree: bool) -> HashMap<ObjectName, Update> {
    let sets = caches.all_sets();
    let living = sets.iter().filter(|(_, set)| !set.deleting);
    let of_sets = living.flat_map(|(name, set)| updates_of(caches, name, set));
    let mut updates: HashMap<_, _> = of_sets
        .filter_map(|(member, update)| needed(caches, in_tree, member, update))
        .collect();
    for member in caches.marked() {
        // From all other claims with the marker, only the marker is removed: the claims without a
        // StatefulSet, those of StatefulSets that are being deleted, and those that the rule
        // leaves unchanged.
        updates.entry(member.name).or_insert_with(|| Update {
            owners: member.claim.rare.owners.to_vec(),
            mark: MarkerChange::Remove,
        });
    }
    updates
}

/// The updates that the claims of the StatefulSet would need if its policy was Retain for both
/// `whenDeleted` and `whenScaled`.
fn updates_of(caches: &Caches, name: &ObjectName, set: &StatefulSet) -> Vec<(Member, Update)> {
    let members = caches.members(name);
    let retained = Retention::default();
    let verdicts = judge(name, set, retained, &members, &caches.pods.read());
    let judged = members.into_iter().zip(verdicts);
    let updates = judged.filter_map(|(member, verdict)| match verdict.step {
        Step::Update(update) => Some((member, update)),
        Step::Leave | Step::Delete => None,
    });
    updates.collect()
}

fn needed(
    caches: &Caches,
    in_tree: bool,
    member: Member,
    mut update: Update,
) -> Option<(ObjectName, Update)> {
    if in_tree && caches.has_pod(&member) {
        update.owners = member.claim.rare.owners.to_vec();
    }
    let changes = update.mark != MarkerChange::Leave || update.owners != *member.claim.rare.owners;
    changes.then_some((member.name, update))
}
