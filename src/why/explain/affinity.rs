//! Decides on which nodes a volume can be used, as kube-scheduler does.
//!
//! Sources: `volume.CheckNodeAffinity` in `k8s.io/component-helpers/storage/volume`,
//! `nodeaffinity.NodeSelector` in `k8s.io/component-helpers/scheduling/corev1`, the plugin
//! `volumezone` of kube-scheduler, and `translateTopologyFromInTreeToCSI` in
//! `k8s.io/csi-translation-lib/plugins`.

use crate::why::read::PersistentVolume;
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm};
use kube::ResourceExt;
use std::fmt::Write as _;

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
/// The label that [`ZONE`] replaced.
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// The label that [`REGION`] replaced.
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
/// Labels of a volume that a node must have with the same value. The value on the volume can be
/// several zones, separated by `__`: the node must then be in one of them.
const TOPOLOGY: [&str; 4] = [ZONE, REGION, BETA_ZONE, BETA_REGION];
const ZONES: &str = "__";

/// Whether the volume can be used only on some nodes.
pub(super) fn is_restricted(volume: &PersistentVolume) -> bool {
    !terms(volume).is_empty() || zones(volume).next().is_some()
}

/// Whether the node affinity and the topology labels of the volume permit the node.
pub(super) fn permits(volume: &PersistentVolume, node: &Node) -> bool {
    let terms = terms(volume);
    let affine = terms.is_empty() || terms.iter().any(|term| matches(term, volume, node));
    affine && is_in_zones(volume, node)
}

/// Whether the topology labels of the volume permit the node. They permit every node without a
/// topology label: the nodes of a cluster with one zone may have none.
fn is_in_zones(volume: &PersistentVolume, node: &Node) -> bool {
    let is_labeled = TOPOLOGY.iter().any(|key| node.labels().contains_key(*key));
    let is_in = |(key, zones): (&str, &String)| {
        let has = topology_of(node, key);
        has.is_some_and(|has| zones.split(ZONES).any(|zone| zone == has))
    };
    !is_labeled || zones(volume).all(is_in)
}

/// The value of this label of the node or, if the node lacks it, of the label that replaced it.
fn topology_of<'a>(node: &'a Node, key: &str) -> Option<&'a String> {
    let present = match key {
        BETA_ZONE => ZONE,
        BETA_REGION => REGION,
        other => other,
    };
    let labels = node.labels();
    labels.get(key).or_else(|| labels.get(present))
}

/// Whether kube-scheduler translates the volume into one of the CSI driver that replaced its
/// in-tree source. This replaces beta labels in the node affinity of the volume, too.
fn is_translated(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().is_some_and(|spec| {
        spec.aws_elastic_block_store.is_some()
            || spec.azure_disk.is_some()
            || spec.cinder.is_some()
            || spec.gce_persistent_disk.is_some()
            || spec.vsphere_volume.is_some()
    })
}

/// What a node must have for the volume, as a part of a sentence.
pub(super) fn description(volume: &PersistentVolume) -> String {
    let mut all: Vec<String> = zones(volume)
        .map(|(key, zones)| format!("{key} in ({})", zones.replace(ZONES, ", ")))
        .collect();
    let terms: Vec<String> = terms(volume).iter().map(describe).collect();
    if !terms.is_empty() {
        all.push(terms.join(" or "));
    }
    all.join(" and ")
}

fn terms(volume: &PersistentVolume) -> &[NodeSelectorTerm] {
    let affinity = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.map_or(&[], |required| &required.node_selector_terms)
}

fn zones(volume: &PersistentVolume) -> impl Iterator<Item = (&'static str, &String)> {
    TOPOLOGY
        .into_iter()
        .filter_map(|key| Some((key, volume.labels().get(key)?)))
}

fn matches(term: &NodeSelectorTerm, volume: &PersistentVolume, node: &Node) -> bool {
    let is_translated = is_translated(volume);
    satisfies(term, node, |key| {
        if is_translated {
            topology_of(node, key)
        } else {
            node.labels().get(key)
        }
    })
}

/// Whether the node, whose labels `label` reads, satisfies the term. A term without requirements is
/// satisfied by no node.
pub(super) fn satisfies<'a>(
    term: &NodeSelectorTerm,
    node: &Node,
    label: impl Fn(&str) -> Option<&'a String>,
) -> bool {
    let expressions = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    let name = node.name_any();
    let mut all = expressions
        .map(|each| holds(each, label(&each.key)))
        .chain(fields.map(|each| each.key == "metadata.name" && holds(each, Some(&name))))
        .peekable();
    all.peek().is_some() && all.all(|holds| holds)
}

fn holds(requirement: &NodeSelectorRequirement, has: Option<&String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let compared = || {
        let wanted = values.first()?.parse::<i64>().ok()?;
        Some(has?.parse::<i64>().ok()?.cmp(&wanted))
    };
    match requirement.operator.as_str() {
        "In" => has.is_some_and(|has| values.contains(has)),
        "NotIn" => has.is_none_or(|has| !values.contains(has)),
        "Exists" => has.is_some(),
        "DoesNotExist" => has.is_none(),
        "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

fn describe(term: &NodeSelectorTerm) -> String {
    let expressions = term.match_expressions.iter().flatten();
    let all = expressions.chain(term.match_fields.iter().flatten());
    let mut text = String::new();
    for each in all {
        if !text.is_empty() {
            text.push_str(" and ");
        }
        let values = each.values.as_deref().unwrap_or_default().join(", ");
        // Writing to a string cannot fail.
        let _ = write!(text, "{} {}", each.key, operator(&each.operator));
        if !values.is_empty() {
            let _ = write!(text, " ({values})");
        }
    }
    text
}

fn operator(operator: &str) -> &str {
    match operator {
        "In" => "in",
        "NotIn" => "not in",
        "Exists" => "exists",
        "DoesNotExist" => "does not exist",
        "Gt" => "greater than",
        "Lt" => "less than",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn volume(labels: &Value, terms: &Value) -> PersistentVolume {
        let required = json!({"nodeSelectorTerms": terms});
        let volume = json!({
            "metadata": {"name": "disk", "labels": labels}, "spec": {"nodeAffinity": {"required": required}},
        });
        serde_json::from_value(volume).expect("a volume")
    }

    #[test]
    fn a_node_needs_one_term_and_all_its_requirements() {
        let node = json!({"metadata": {"name": "one", "labels": {"zone": "a", "disks": "3"}}});
        let node: Node = serde_json::from_value(node).expect("a node");
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let on = |terms: Value| permits(&volume(&json!({}), &terms), &node);
        let all = |each: Value| json!([{"matchExpressions": each}]);
        for (term, expected) in [
            (expression("zone", "In", &["a", "b"]), true),
            (expression("zone", "In", &["b"]), false),
            (expression("other", "In", &["b"]), false),
            (expression("zone", "NotIn", &["b"]), true),
            (expression("other", "NotIn", &["b"]), true),
            (expression("zone", "NotIn", &["a"]), false),
            (expression("zone", "Exists", &[]), true),
            (expression("zone", "DoesNotExist", &[]), false),
            (expression("disks", "Gt", &["2"]), true),
            (expression("disks", "Lt", &["3"]), false),
            (expression("zone", "Gt", &["2"]), false),
        ] {
            assert_eq!(on(all(json!([term.clone()]))), expected, "{term}");
        }
        let both = json!([
            expression("zone", "Exists", &[]),
            expression("disks", "In", &["4"])
        ]);
        assert!(!on(all(both)));
        assert!(!on(json!([{}])));
        let fields = json!([{}, {"matchFields": [expression("metadata.name", "In", &["one"])]}]);
        assert!(on(fields));
        assert!(on(json!([])));
    }

    fn node(labels: &Value) -> Node {
        let node = json!({"metadata": {"name": "one", "labels": labels}});
        serde_json::from_value(node).expect("a node")
    }

    #[test]
    fn zones_of_labels_count() {
        let zone = |key: &str, zone: &str| json!({key: zone});
        let permits = |disk: &PersistentVolume, labels: Value| permits(disk, &node(&labels));
        let disk = volume(&zone(ZONE, "a__b"), &json!([]));
        assert!(is_restricted(&disk));
        assert!(permits(&disk, zone(ZONE, "b")));
        assert!(!permits(&disk, zone(ZONE, "c")));
        assert!(!permits(&disk, zone(BETA_ZONE, "b")));
        assert!(!permits(&disk, zone(REGION, "a")));
        assert_eq!(description(&disk), "topology.kubernetes.io/zone in (a, b)");
        assert!(permits(&disk, json!({"kubernetes.io/hostname": "one"})));
        let old = volume(&zone(BETA_ZONE, "a"), &json!([]));
        assert!(permits(&old, zone(ZONE, "a")));
        assert!(!permits(&old, zone(ZONE, "b")));
        let both = |beta: &str, present: &str| json!({BETA_ZONE: beta, ZONE: present});
        assert!(permits(&old, both("a", "b")));
        assert!(!permits(&old, both("b", "a")));
    }

    /// kube-scheduler translates only in-tree volumes.
    #[test]
    fn a_beta_label_in_the_affinity_of_an_in_tree_volume_was_replaced() {
        let zone = json!({"key": BETA_ZONE, "operator": "In", "values": ["a"]});
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [zone]}]});
        let permits = |source: Value, labels: Value| {
            let mut volume = json!({"metadata": {"name": "disk"}, "spec": source});
            volume["spec"]["nodeAffinity"] = json!({"required": required});
            let volume = serde_json::from_value(volume).expect("a volume");
            permits(&volume, &node(&labels))
        };
        let in_tree = || json!({"gcePersistentDisk": {"pdName": "disk"}});
        assert!(permits(in_tree(), json!({ZONE: "a"})));
        assert!(permits(in_tree(), json!({BETA_ZONE: "a"})));
        assert!(!permits(in_tree(), json!({ZONE: "b"})));
        assert!(!permits(in_tree(), json!({})));
        let csi = json!({"csi": {"driver": "csi.example.com", "volumeHandle": "1"}});
        assert!(!permits(csi.clone(), json!({ZONE: "a"})));
        assert!(permits(csi, json!({BETA_ZONE: "a"})));
    }
}
