//! Reads the pods of a StatefulSet.

use crate::{
    objects::{StatefulSet as TrimmedSet, stateful_set::ordinal},
    why::{
        LiveReads, Object, Selection,
        explain::pod::conditions,
        read::{Pod, StatefulSet},
    },
};
use kube::ResourceExt;
use std::collections::BTreeMap;

/// The pods of a StatefulSet by their ordinals.
pub(super) struct Pods(BTreeMap<u32, Pod>);

impl Pods {
    /// Reads the pods that the StatefulSet controls; none if they could not be read.
    pub(super) fn of(reads: &LiveReads, object: &Object, set: &StatefulSet) -> Option<Self> {
        let labels = set.spec.as_ref()?.selector.match_labels.iter().flatten();
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let labels = labels.join(",");
        let selection = Selection {
            labels: &labels,
            fields: "",
        };
        let pods = reads
            .list::<Pod>(object.namespace_name(), selection)
            .found()?;
        let pods = pods.iter().filter_map(|pod| {
            if !is_controlled(pod, set) {
                return None;
            }
            let name = pod.name_any();
            let (before, ordinal) = ordinal(&name)?;
            (*before == *object.name.name).then(|| (ordinal, pod.clone()))
        });
        Some(Self(pods.collect()))
    }

    pub(super) fn get(&self, ordinal: u32) -> Option<&Pod> {
        self.0.get(&ordinal)
    }

    pub(super) fn is_ready(&self, ordinal: u32) -> bool {
        self.get(ordinal).is_some_and(is_ready)
    }

    /// The number of ready pods, without those that the StatefulSet has to remove.
    pub(super) fn ready(&self, set: &TrimmedSet) -> usize {
        let wanted = self.0.iter().filter(|(ordinal, _)| set.has(**ordinal));
        wanted.filter(|(_, pod)| is_ready(pod)).count()
    }

    /// The pod with the highest ordinal that the StatefulSet has to remove: that pod is removed
    /// first.
    pub(super) fn surplus(&self, set: &TrimmedSet) -> Option<&Pod> {
        let mut surplus = self
            .0
            .iter()
            .rev()
            .filter(|(ordinal, _)| !set.has(**ordinal));
        surplus.next().map(|(_, pod)| pod)
    }
}

fn is_controlled(pod: &Pod, set: &StatefulSet) -> bool {
    let mut owners = pod.owner_references().iter();
    owners.any(|owner| {
        owner.controller == Some(true) && Some(&owner.uid) == set.metadata.uid.as_ref()
    })
}

/// Whether the pod is ready and is not being deleted.
fn is_ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && conditions::is_true(pod, "Ready")
}
