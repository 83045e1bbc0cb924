//! Finds the nodes that would take a pod if its volumes did not exclude them.
//!
//! What such a node has room for is not compared, as kube-scheduler does in several plugins. So it
//! is not known whether the pod would have a node with other volumes.

use super::{NAMED, refusal::Refusal};
use crate::why::{
    Cause,
    explain::{affinity, nodes, quote, users},
    read::{PersistentVolume, Pod},
};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

/// The cause that the pod has no node, if one of these nodes, which the volumes exclude, would take
/// the pod; none otherwise.
pub(super) fn cause(pod: &Pod, volumes: &[PersistentVolume], excluded: &[&Node]) -> Option<Cause> {
    let takes = |node: &&&Node| Refusal::of(node, pod).is_none() && is_selected(node, pod);
    let taking: Vec<_> = excluded.iter().filter(takes).collect();
    let names: Vec<_> = taking.iter().map(|node| node.name_any()).collect();
    if names.is_empty() {
        return None;
    }
    let restricted = volumes
        .iter()
        .filter(|volume| affinity::is_restricted(volume));
    let restricted: Vec<_> = restricted.map(|volume| volume.name_any()).collect();
    let unscheduled = users::unscheduled(pod)?;
    let sentence = format!(
        "{} The pod's volumes ({}) exclude these nodes, which may have room for it: {}.",
        unscheduled.sentence,
        restricted.join(", "),
        quote::first(&names, NAMED)
    );
    let cause = Cause {
        sentence,
        ..unscheduled
    };
    Some(cause.run(
        nodes::of_pod(pod).describe(),
        "to see what the nodes lack that the volumes permit; provide it there, or restore the data into a volume that another node can use",
    ))
}

/// Whether the pod selects the node, by `nodeSelector` and by its required node affinity.
///
/// Source: `GetRequiredNodeAffinity` in `k8s.io/component-helpers/scheduling/corev1`.
pub(super) fn is_selected(node: &Node, pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else {
        return true;
    };
    let label = |key: &str| node.labels().get(key);
    let mut selector = spec.node_selector.iter().flatten();
    let affinity = spec.affinity.as_ref();
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| {
        let required = &affinity.required_during_scheduling_ignored_during_execution;
        required.as_ref()
    });
    selector.all(|(key, value)| label(key) == Some(value))
        && required.is_none_or(|required| {
            let mut terms = required.node_selector_terms.iter();
            terms.any(|term| affinity::satisfies(term, node, label))
        })
}
