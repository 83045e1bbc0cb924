//! Decides on which nodes a volume can be used, as kube-scheduler does.
//!
//! Sources: `volume.CheckNodeAffinity` in `k8s.io/component-helpers/storage/volume`,
//! `nodeaffinity.NodeSelector` in `k8s.io/component-helpers/scheduling/corev1`, and the plugin
//! `volumezone` of kube-scheduler.

use crate::why::read::PersistentVolume;
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm};
use kube::ResourceExt;
use std::fmt::Write as _;

/// Labels of a volume that a node must have with the same value. The value on the volume can be
/// several zones, separated by `__`: the node must then be in one of them.
const TOPOLOGY: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];
const ZONES: &str = "__";

/// Whether the volume can be used only on some nodes.
pub(super) fn is_restricted(volume: &PersistentVolume) -> bool {
    !terms(volume).is_empty() || zones(volume).next().is_some()
}

/// Whether the node affinity and the topology labels of the volume permit the node.
pub(super) fn permits(volume: &PersistentVolume, node: &Node) -> bool {
    let terms = terms(volume);
    let affine = terms.is_empty() || terms.iter().any(|term| matches(term, node));
    affine
        && zones(volume).all(|(key, zones)| {
            let has = node.labels().get(key);
            has.is_some_and(|has| zones.split(ZONES).any(|zone| zone == has))
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

/// Whether the node matches the term. A term without requirements matches no node.
fn matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    let name = node.name_any();
    let mut all = expressions
        .map(|each| holds(each, node.labels().get(&each.key)))
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

    #[test]
    fn zones_of_labels_count() {
        let node = |zone: &str| -> Node {
            let labels = json!({"topology.kubernetes.io/zone": zone});
            let node = json!({"metadata": {"name": "one", "labels": labels}});
            serde_json::from_value(node).expect("a node")
        };
        let disk = volume(&json!({"topology.kubernetes.io/zone": "a__b"}), &json!([]));
        assert!(is_restricted(&disk) && permits(&disk, &node("b")) && !permits(&disk, &node("c")));
        assert_eq!(description(&disk), "topology.kubernetes.io/zone in (a, b)");
    }
}
