//! Reads live the other StatefulSets that a claim with an ambiguous name may belong to: a late
//! watch may not know them yet.

use super::{
    READ_LIMIT,
    caches::{Member, owner},
    resolve_set::{READINGS, is_ambiguous},
};
use crate::hashing::{HashMap, HashSet};
use crate::{
    cluster::{LiveGet, ReconcileError, SharedList, Store},
    objects::{ObjectName, Pod, StatefulSet, stateful_set::readings},
    telemetry::Metrics,
};
use futures::future::try_join_all;
use kube::Client;
use std::sync::Arc;

/// Maximum number of StatefulSets that are read one by one. An ambiguous template has at most
/// [`READINGS`] readings.
const MAX_READS: usize = 64;

/// Live reads of StatefulSets.
pub struct LiveSets {
    /// Reads one StatefulSet.
    pub one: Arc<LiveGet<StatefulSet>>,
    /// Lists the StatefulSets of a namespace.
    pub all: Arc<SharedList<StatefulSet>>,
}

impl LiveSets {
    /// Creates readers that use this client.
    pub fn new(metrics: &Arc<Metrics>, client: &Client) -> Self {
        Self {
            one: LiveGet::new(metrics.clone(), client),
            all: SharedList::new(metrics.clone(), client),
        }
    }
}

/// The other existing StatefulSets to which, according to their names, the claims of the
/// StatefulSet being reconciled may belong.
pub(super) struct OtherSets(HashMap<ObjectName, Arc<StatefulSet>>);

impl OtherSets {
    /// Reads every StatefulSet, except `set`, that one of `members` may belong to by its name. All
    /// claims of one template have the same readings except for the ordinal, so the number of reads
    /// does not grow with the number of claims. It grows with the number of templates, so more than
    /// [`MAX_READS`] are one LIST.
    ///
    /// # Errors
    /// When one of the StatefulSets could not be read. Then nothing may be concluded about the
    /// claims.
    pub(super) async fn read(
        live: &LiveSets,
        set: &ObjectName,
        members: &[Member],
    ) -> Result<Self, ReconcileError> {
        let possible = possible(set, members);
        if possible.len() > MAX_READS {
            return Self::list(live, set, possible).await;
        }
        let reads = possible.into_iter().map(async |name| {
            match live.one.get(&name, READ_LIMIT).await {
                Ok(found) => Ok(found.map(|found| (name, Arc::new(found)))),
                Err(error) => Err(ReconcileError::new(format!(
                    "statefulset {name}, which may have the same claims, could not be read: {error}"
                ))),
            }
        });
        let read = try_join_all(reads).await?;
        Ok(Self(read.into_iter().flatten().collect()))
    }

    async fn list(
        live: &LiveSets,
        set: &ObjectName,
        possible: HashSet<ObjectName>,
    ) -> Result<Self, ReconcileError> {
        let listed = live.all.list(&set.namespace).await;
        let listed = listed.map_err(|error| {
            ReconcileError::new(format!("statefulsets could not be listed: {error}"))
        })?;
        let read = possible.into_iter().filter_map(|name| {
            let set = listed.value.get(&name)?;
            Some((name, set))
        });
        Ok(Self(read.collect()))
    }

    /// Returns whether one of the other StatefulSets creates claims with the name of `member`, too.
    pub(super) fn may_own(&self, member: &Member) -> bool {
        readings(&member.name.name).any(|reading| {
            let set = ObjectName::new(member.name.namespace.clone(), reading.set);
            let rival = self.0.get(&set);
            rival.is_some_and(|rival| rival.makes(reading.template))
        })
    }

    /// Decides again for each claim whether it belongs to `set`, now that the other StatefulSets
    /// were read live. Returns the claims that belong to `set`, and those that could still be
    /// deleted with it because of an owner reference or the marker.
    pub(super) fn reassign(
        &self,
        name: &ObjectName,
        set: &StatefulSet,
        members: &[Member],
        pods: &Store<Pod>,
    ) -> Vec<Member> {
        let set = Arc::new(set.clone());
        let known = |other: &ObjectName| {
            if other == name {
                Some(set.clone())
            } else {
                self.0.get(other).cloned()
            }
        };
        let reassigned = members.iter().map(|member| Member {
            own: owner(&member.name, &member.claim, known, pods).as_ref() == Some(name),
            ..member.clone()
        });
        reassigned
            .filter(|each| each.concerns(name, &set))
            .collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::test_server::{answering, failure},
        objects::claim::ClaimWire,
    };
    use parking_lot::Mutex;
    use serde_json::json;

    fn member(name: &str) -> Member {
        let claim = json!({"metadata": {"namespace": "ns", "name": name, "uid": name}});
        let claim: ClaimWire = serde_json::from_value(claim).expect("a claim");
        Member {
            name: ObjectName::new("ns", name),
            claim: Arc::new(claim.into()),
            ordinal: 0,
            stale: false,
            own: true,
        }
    }

    /// A user who may create StatefulSets could otherwise make Volume Warden send any number of
    /// requests.
    #[tokio::test]
    async fn many_possible_sets_are_one_list() {
        let paths = Arc::new(Mutex::new(Vec::new()));
        let seen = paths.clone();
        let client = answering(move |head, _| {
            let path = head.uri.path().to_owned();
            let is_list = path.ends_with("/statefulsets");
            seen.lock().push(path);
            let metadata = json!({"namespace": "ns", "name": "x", "uid": "1"});
            let set = json!({"metadata": metadata, "spec": {"volumeClaimTemplates": [{"metadata": {"name": "t0-a"}}]}});
            if is_list {
                (200, json!({"metadata": {}, "items": [set]}))
            } else {
                failure(404, "NotFound")
            }
        });
        let live = LiveSets::new(&Arc::new(Metrics::new()), &client);
        let web = ObjectName::new("ns", "web");
        // Each name has 20 readings, of which `x` is one.
        let long = |template: usize| {
            let middle = (0..18)
                .map(|part| format!("-b{template}x{part}"))
                .collect::<String>();
            member(&format!("t{template}-a{middle}-x-0"))
        };
        for (templates, lists) in [(1, 0), (8, 1)] {
            let members: Vec<_> = (0..templates).map(long).collect();
            let other_sets = OtherSets::read(&live, &web, &members).await.expect("read");
            let paths = std::mem::take(&mut *paths.lock());
            let listed = paths.iter().filter(|path| path.ends_with("/statefulsets"));
            assert_eq!(listed.count(), lists, "{paths:?}");
            assert!(paths.len() <= MAX_READS && (lists == 0 || paths.len() == 1));
            assert_eq!(other_sets.0.len(), lists, "x is found by the LIST");
        }
    }
}
