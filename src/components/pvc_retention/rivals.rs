//! Reads live the other StatefulSets that a claim with an ambiguous name may belong to: a late
//! watch may not know them yet.

use super::{
    READ_LIMIT,
    caches::{Member, owner},
    resolve_set::{READINGS, is_ambiguous},
};
use crate::hashing::{HashMap, HashSet};
use crate::{
    cluster::{LiveGet, ReconcileError, Store},
    objects::{ObjectName, Pod, StatefulSet, stateful_set::readings},
};
use futures::future::try_join_all;
use std::sync::Arc;

/// The other existing StatefulSets to which, according to their names, the claims of the
/// StatefulSet being reconciled may belong.
pub(super) struct Rivals(HashMap<ObjectName, Arc<StatefulSet>>);

impl Rivals {
    /// Reads every StatefulSet, except `set`, that one of `members` may belong to by its name. All
    /// claims of one template have the same readings except for the ordinal, so the number of reads
    /// does not grow with the number of claims.
    ///
    /// # Errors
    /// When one of the StatefulSets could not be read. Then nothing may be concluded about the
    /// claims.
    pub(super) async fn read(
        live: &LiveGet<StatefulSet>,
        set: &ObjectName,
        members: &[Member],
    ) -> Result<Self, ReconcileError> {
        let reads = possible(set, members).into_iter().map(async |name| {
            match live.get(&name, READ_LIMIT).await {
                Ok(found) => Ok(found.map(|found| (name, Arc::new(found)))),
                Err(error) => Err(ReconcileError::new(format!(
                    "statefulset {name}, which may have the same claims, could not be read: {error}"
                ))),
            }
        });
        let read = try_join_all(reads).await?;
        Ok(Self(read.into_iter().flatten().collect()))
    }

    /// Returns whether one of the other StatefulSets creates claims with the name of `member`, too.
    pub(super) fn contest(&self, member: &Member) -> bool {
        readings(&member.name.name).any(|reading| {
            let set = ObjectName::new(member.name.namespace.clone(), reading.set);
            let rival = self.0.get(&set);
            rival.is_some_and(|rival| rival.makes(reading.template))
        })
    }

    /// Decides again for each claim whether it belongs to `set`, now that the other StatefulSets
    /// were read live. Returns the claims that belong to `set`, and those that could still be
    /// deleted with it because of an owner reference or the marker.
    pub(super) fn settle(
        &self,
        name: &ObjectName,
        set: &StatefulSet,
        members: &[Member],
        pods: &Store<Pod>,
    ) -> Vec<Member> {
        let set = Arc::new(set.clone());
        let known = |other: &ObjectName| match other == name {
            true => Some(set.clone()),
            false => self.0.get(other).cloned(),
        };
        let settled = members.iter().map(|member| Member {
            own: owner(&member.name, &member.claim, known, pods).as_ref() == Some(name),
            ..member.clone()
        });
        settled.filter(|each| each.concerns(name, &set)).collect()
    }
}

/// The names of all StatefulSets, except `set`, that the claims may belong to.
fn possible(set: &ObjectName, members: &[Member]) -> HashSet<ObjectName> {
    let ambiguous = members.iter().filter(|each| is_ambiguous(&each.name.name));
    let named = ambiguous.flat_map(|each| {
        let readings = readings(&each.name.name).take(READINGS);
        readings.map(|reading| ObjectName::new(each.name.namespace.clone(), reading.set))
    });
    named.filter(|other| other != set).collect()
}
