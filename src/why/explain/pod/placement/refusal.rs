//! Decides which nodes take a pod, whatever volumes it has, as kube-scheduler does.
//!
//! Sources: `nodeunschedulable` and `tainttoleration` in `pkg/scheduler/framework/plugins` of
//! Kubernetes, and `Toleration.ToleratesTaint` in `k8s.io/api/core/v1`.

use crate::why::{explain::nodes, read::Pod};
use k8s_openapi::api::core::v1::{Node, Taint, Toleration};
use std::fmt;

/// The taint for which a toleration permits a cordoned node.
const CORDONED: &str = "node.kubernetes.io/unschedulable";
/// The taints of a node that is not ready: its kubelet reports so, or does not answer.
const NOT_READY: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// Why a node does not take a pod. Displayed as the predicate of a sentence about the node.
#[derive(Clone, Copy)]
pub(super) enum Refusal<'a> {
    Cordoned,
    NotReady,
    /// The node has a taint that the pod does not tolerate.
    Tainted(&'a Taint),
}

impl<'a> Refusal<'a> {
    /// Why the node does not take the pod; none if it does, as far as its state and its taints
    /// show.
    pub(super) fn of(node: &'a Node, pod: &Pod) -> Option<Self> {
        let spec = node.spec.as_ref();
        let cordoned = spec.and_then(|spec| spec.unschedulable) == Some(true);
        if cordoned && !is_tolerated(pod, CORDONED, NO_SCHEDULE, "") {
            return Some(Self::Cordoned);
        }
        let ignored = |key: &&str| is_tolerated(pod, key, NO_SCHEDULE, "");
        if !nodes::is_ready(node) && !NOT_READY.iter().any(ignored) {
            return Some(Self::NotReady);
        }
        let mut taints = spec.into_iter().flat_map(|spec| &spec.taints).flatten();
        let taint = taints.find(|taint| {
            let value = taint.value.as_deref().unwrap_or_default();
            let repels = [NO_SCHEDULE, NO_EXECUTE].contains(&&*taint.effect);
            repels && !is_tolerated(pod, &taint.key, &taint.effect, value)
        });
        taint.map(Self::Tainted)
    }

    /// The field of the node that shows it.
    pub(super) fn field(self) -> String {
        match self {
            Self::Cordoned => "spec.unschedulable".to_owned(),
            Self::NotReady => "status.conditions[Ready]".to_owned(),
            Self::Tainted(taint) => format!("spec.taints[{}]", taint.key),
        }
    }
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cordoned => f.write_str("is cordoned"),
            Self::NotReady => f.write_str("is not ready"),
            Self::Tainted(taint) => {
                write!(f, "has the taint {}", taint.key)?;
                match taint.value.as_deref().unwrap_or_default() {
                    "" => write!(f, ":{}", taint.effect),
                    value => write!(f, "={value}:{}", taint.effect),
                }
            }
        }
    }
}

/// Whether the pod tolerates a taint with this key, effect and value.
fn is_tolerated(pod: &Pod, key: &str, effect: &str, value: &str) -> bool {
    let spec = pod.spec.as_ref();
    let mut tolerations = spec
        .into_iter()
        .flat_map(|spec| &spec.tolerations)
        .flatten();
    tolerations.any(|toleration| tolerates(toleration, key, effect, value))
}

/// Whether the toleration matches such a taint. An empty key or effect of the toleration matches
/// any.
fn tolerates(toleration: &Toleration, key: &str, effect: &str, value: &str) -> bool {
    let is_any_or = |wanted: Option<&str>, has: &str| {
        wanted.is_none_or(|wanted| wanted.is_empty() || wanted == has)
    };
    if !is_any_or(toleration.key.as_deref(), key)
        || !is_any_or(toleration.effect.as_deref(), effect)
    {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => toleration.value.as_deref().unwrap_or_default() == value,
        // It depends on feature gates of kube-scheduler whether it applies other operators, as Lt
        // and Gt. So it is not concluded that the node does not take the pod.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn refusal(taint: &Value, toleration: &Value) -> Option<String> {
        let node = json!({
            "metadata": {"name": "one"}, "spec": {"taints": [taint]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let node: Node = serde_json::from_value(node).expect("a node");
        state(&node, toleration)
    }

    fn state(node: &Node, toleration: &Value) -> Option<String> {
        let spec = json!({"containers": [], "tolerations": [toleration]});
        let pod = json!({"metadata": {"name": "web"}, "spec": spec});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        Refusal::of(node, &pod).map(|refusal| refusal.to_string())
    }

    #[test]
    fn a_taint_repels_pods_without_a_toleration_for_it() {
        let taint = json!({"key": "disk", "value": "old", "effect": "NoSchedule"});
        for (toleration, tolerated) in [
            (json!({"operator": "Exists"}), true),
            (json!({"operator": "Exists", "key": ""}), true),
            (json!({"operator": "Exists", "key": "disk"}), true),
            (json!({"operator": "Exists", "key": "other"}), false),
            (json!({"operator": "Exists", "effect": "NoSchedule"}), true),
            (json!({"operator": "Exists", "effect": ""}), true),
            (json!({"operator": "Exists", "effect": "NoExecute"}), false),
            (
                json!({"operator": "Equal", "key": "disk", "value": "old"}),
                true,
            ),
            (json!({"key": "disk", "value": "old"}), true),
            (json!({"key": "disk", "value": "new"}), false),
            (json!({"key": "disk"}), false),
            (json!({"operator": "Gt", "key": "disk", "value": "1"}), true),
        ] {
            let found = refusal(&taint, &toleration);
            let expected = (!tolerated).then(|| "has the taint disk=old:NoSchedule".to_owned());
            assert_eq!(found, expected, "{toleration}");
        }
        let other = json!({"operator": "Exists", "key": "other"});
        let hint = json!({"key": "disk", "effect": "PreferNoSchedule"});
        assert_eq!(refusal(&hint, &other), None);
        let evicts = json!({"key": "disk", "effect": "NoExecute"});
        let expected = Some("has the taint disk:NoExecute".to_owned());
        assert_eq!(refusal(&evicts, &other), expected);
    }

    #[test]
    fn a_toleration_can_permit_a_node_that_is_cordoned_or_not_ready() {
        let cordoned = json!({
            "metadata": {"name": "one"}, "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        for (node, key, is) in [
            (cordoned, CORDONED, "is cordoned"),
            (
                json!({"metadata": {"name": "one"}}),
                NOT_READY[0],
                "is not ready",
            ),
        ] {
            let node: Node = serde_json::from_value(node).expect("a node");
            let of = |key: &str| json!({"operator": "Exists", "key": key});
            assert_eq!(state(&node, &of("other")), Some(is.to_owned()));
            assert_eq!(state(&node, &of(key)), None);
            assert_eq!(state(&node, &json!({"operator": "Exists"})), None);
        }
    }
}
