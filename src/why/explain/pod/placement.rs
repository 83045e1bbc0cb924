//! Explains pods without a node: whether a volume of a bound claim keeps every node from running
//! the pod.
//!
//! The condition `PodScheduled` has no field for the plugin of kube-scheduler that rejected the
//! nodes, and its message is for people. So the objects that these plugins look at are read.
//! Sources: `volumerestrictions`, `volumebinding`, `volumezone` and `nodevolumelimits` in
//! `pkg/scheduler/framework/plugins` of Kubernetes.

mod excluded;
mod limits;
mod refusal;

use super::{claims::Mounted, conditions::condition};
use crate::why::{
    Cause, Code, Evidence, LiveReads, Lookup, Object, Selection,
    explain::{affinity, claim, nodes, quote, users},
    read::{PersistentVolume, PersistentVolumeClaim, Pod},
};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use refusal::Refusal;

/// The access mode with which only one pod at a time may use a claim.
const ONE_POD: &str = "ReadWriteOncePod";
/// Maximum number of nodes that a message names.
const NAMED: usize = 5;

/// The chain of causes if the pod has no node because of these volumes, whose claims are bound, or
/// may have none because of them; empty if they exclude no node that would take the pod, or if no
/// scheduler has looked for a node yet. None if an object could not be read.
pub(super) fn causes(reads: &LiveReads, pod: &Pod, mounted: &[Mounted<'_>]) -> Option<Vec<Cause>> {
    if !was_judged(pod) {
        return Some(Vec::new());
    }
    let namespace = pod.namespace().unwrap_or_default();
    let names = mounted.iter().map(|mounted| mounted.claim.as_str());
    let claims: Vec<_> = reads
        .each::<PersistentVolumeClaim>(&namespace, names)
        .into_iter()
        .filter_map(Lookup::found)
        .collect();
    let chain = other_pod(reads, pod, &claims)?;
    if !chain.is_empty() {
        return Some(chain);
    }
    let mut volumes = Vec::new();
    let lookups = reads.each::<PersistentVolume>("", volume_names(&claims));
    for (claim, lookup) in claims.iter().zip(lookups) {
        match lookup {
            Lookup::Found(volume) => volumes.push(volume),
            Lookup::Absent => {
                let object = Object::claim(&namespace, &claim.name_any());
                return Some(claim::causes(reads, &object, claim));
            }
            Lookup::Unread => return None,
        }
    }
    let concerned = |volume: &PersistentVolume| {
        affinity::is_restricted(volume) || limits::driver(volume).is_some()
    };
    if !volumes.iter().any(concerned) {
        return Some(Vec::new());
    }
    let nodes = reads.list::<Node>("", Selection::default()).found()?;
    by_nodes(reads, pod, &volumes, &nodes)
}

/// Whether a scheduler has looked for a node for the pod: the pod has the condition `PodScheduled`,
/// and no scheduling gates, with which the API server sets that condition itself.
///
/// Source: `applySchedulingGatedCondition` in `pkg/registry/core/pod/strategy.go` of Kubernetes.
fn was_judged(pod: &Pod) -> bool {
    let gates = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.scheduling_gates.as_ref());
    gates.is_none_or(Vec::is_empty) && condition(pod, "PodScheduled").is_some()
}

fn by_nodes(
    reads: &LiveReads,
    pod: &Pod,
    volumes: &[PersistentVolume],
    nodes: &[Node],
) -> Option<Vec<Cause>> {
    let (usable, excluded): (Vec<&Node>, Vec<&Node>) = nodes
        .iter()
        .partition(|node| volumes.iter().all(|volume| affinity::permits(volume, node)));
    if usable.is_empty() {
        return Some(no_node(volumes, nodes).into_iter().collect());
    }
    // The state and the limits of a node that the pod does not select are no cause, nor are the
    // limits of a node that does not take the pod.
    let selected = |node: &&Node| excluded::is_selected(node, pod);
    let usable: Vec<&Node> = usable.into_iter().filter(selected).collect();
    if volumes.iter().any(affinity::is_restricted)
        && let Some(cause) = unavailable(pod, volumes, &usable)
    {
        return Some(vec![cause]);
    }
    let taking = |node: &&Node| Refusal::of(node, pod).is_none();
    let available: Vec<&Node> = usable.into_iter().filter(taking).collect();
    let full = limits::cause(reads, volumes, &available)?;
    if !full.is_empty() {
        return Some(full);
    }
    Some(
        excluded::cause(pod, volumes, &excluded)
            .into_iter()
            .collect(),
    )
}

/// The chain of causes if another pod uses a claim of the pod that only one pod at a time may use;
/// empty otherwise. None if that is not found, and the users of a claim could not be read.
fn other_pod(reads: &LiveReads, pod: &Pod, claims: &[PersistentVolumeClaim]) -> Option<Vec<Cause>> {
    let exclusive = |claim: &&PersistentVolumeClaim| {
        let modes = claim.spec.iter().flat_map(|spec| &spec.access_modes);
        modes.flatten().any(|mode| mode == ONE_POD)
    };
    let claims = claims.iter().filter(exclusive);
    let all: Vec<_> = claims.map(|claim| other_user(reads, pod, claim)).collect();
    let found = all.iter().flatten().find(|chain| !chain.is_empty());
    match found {
        Some(chain) => Some(chain.clone()),
        None => all.iter().all(Option::is_some).then(Vec::new),
    }
}

/// The chain of causes if another pod uses this claim; empty otherwise. None if the pods could not
/// be read.
fn other_user(reads: &LiveReads, pod: &Pod, claim: &PersistentVolumeClaim) -> Option<Vec<Cause>> {
    let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
    let users = reads.users(&namespace, &name).found()?;
    let other = users.iter().find(|other| {
        let placed = nodes::name_of(other).is_some();
        placed && other.uid() != pod.uid() && !other.trimmed.finished
    });
    let Some(other) = other else {
        return Some(Vec::new());
    };
    let sentence = format!(
        "The access mode {ONE_POD} lets one pod at a time use the claim {name}, and the pod {} on the node {} uses it.",
        other.name_any(),
        nodes::name_of(other).unwrap_or_default()
    );
    let then = "this pod gets a node";
    Some(users::of_other(
        reads,
        other,
        sentence,
        "spec.volumes",
        then,
    ))
}

/// The names of the volumes that the claims are bound to.
fn volume_names(claims: &[PersistentVolumeClaim]) -> impl ExactSizeIterator<Item = &str> {
    claims.iter().map(|claim| {
        let spec = claim.spec.as_ref();
        spec.and_then(|spec| spec.volume_name.as_deref())
            .unwrap_or_default()
    })
}

/// The cause that no node can use all volumes of the pod: it names a volume that none of the nodes
/// can use or, if each can be used somewhere, what each volume requires of a node. None if no
/// volume requires anything of a node: then the cluster has no nodes.
fn no_node(volumes: &[PersistentVolume], nodes: &[Node]) -> Option<Cause> {
    let restricted = volumes
        .iter()
        .filter(|volume| affinity::is_restricted(volume));
    let mut alone = restricted.clone();
    let lonely = alone.find(|volume| !nodes.iter().any(|node| affinity::permits(volume, node)));
    let (volume, sentence) = if let Some(volume) = lonely {
        let sentence = format!(
            "The volume {} can be used only on a node with {}, and there is no such node.",
            volume.name_any(),
            affinity::description(volume)
        );
        (volume, sentence)
    } else {
        let each = restricted.clone().map(|volume| {
            format!(
                "{} needs {}",
                volume.name_any(),
                affinity::description(volume)
            )
        });
        let each: Vec<_> = each.collect();
        let sentence = format!(
            "No node can use all volumes of the pod: {}.",
            each.join("; ")
        );
        (restricted.clone().next()?, sentence)
    };
    let object = Object::volume(&volume.name_any());
    let evidence = Evidence::new(object.to_string(), "spec.nodeAffinity");
    Some(Cause::new(Code::NoNodeForVolume, sentence, evidence).run(
        "kubectl get nodes --show-labels",
        "to compare the labels of the nodes; bring the node of the volume back, or restore the data into \
         a volume that another node can use",
    ))
}

/// The cause that none of these nodes, which the pod selects and which can use the volumes, takes
/// the pod; none if one of them does, or if there are none.
fn unavailable(pod: &Pod, volumes: &[PersistentVolume], usable: &[&Node]) -> Option<Cause> {
    let refusals: Option<Vec<(String, Refusal<'_>)>> = usable
        .iter()
        .map(|node| Some((node.name_any(), Refusal::of(node, pod)?)))
        .collect();
    let refusals = refusals?;
    let states = refusals
        .iter()
        .map(|(name, refusal)| format!("{name} {refusal}"));
    let names: Vec<_> = volumes.iter().map(|volume| volume.name_any()).collect();
    let sentence = format!(
        "Of the nodes that match the pod's node selector and affinity, only these can use its volumes ({}), but the pod cannot be scheduled on any of them: {}.",
        names.join(", "),
        quote::first(&states.collect::<Vec<_>>(), NAMED)
    );
    // A taint is mostly permanent, so a node without such a taint accepts the pod earlier.
    let passing = |(_, refusal): &&(String, Refusal<'_>)| !matches!(refusal, Refusal::Tainted(_));
    let (name, refusal) = refusals.iter().find(passing).or(refusals.first())?;
    let node = Object::new("Node", "node", "", name);
    let evidence = Evidence::new(node.to_string(), refusal.field());
    Some(Cause::new(Code::NoNodeForVolume, sentence, evidence).run(
        node.describe(),
        "to see why the pod cannot be scheduled on the node; the pod gets a node once it can",
    ))
}
