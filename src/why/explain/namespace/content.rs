//! Which objects are still in a namespace that is being deleted, according to its conditions.
//!
//! Source: `pkg/controller/namespace/deletion` of Kubernetes (`status_condition_utils.go`).

use crate::why::{Cause, Code, Evidence, Object, explain::quote};
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};

const REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";
/// The conditions with which Kubernetes reports that it cannot list or delete all objects of the
/// namespace.
const FAILURES: [&str; 3] = [
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
];

/// The conditions of a namespace that are true.
pub(super) struct Content<'a> {
    conditions: Vec<&'a NamespaceCondition>,
}

impl<'a> Content<'a> {
    pub(super) fn of(namespace: &'a Namespace) -> Self {
        let conditions = namespace
            .status
            .iter()
            .flat_map(|status| &status.conditions);
        let conditions = conditions.flatten();
        Self {
            conditions: conditions.filter(|each| each.status == "True").collect(),
        }
    }

    /// Whether the namespace may contain objects of this resource: its condition names the
    /// resource, or no condition names the remaining objects yet.
    pub(super) fn may_have(&self, resource: &str) -> bool {
        match self.condition(REMAINING) {
            Some(_) => match self.remaining().as_slice() {
                // The message has another form.
                [] => true,
                remaining => remaining.contains(&resource),
            },
            None => true,
        }
    }

    /// Whether a condition reports the objects that remain.
    pub(super) fn reports_objects(&self) -> bool {
        self.condition(REMAINING).is_some()
    }

    /// One cause for each failure, and one for the objects that remain. With `explained`, other
    /// causes already explain the claims and the pods, so the latter cause is left out if only
    /// these remain.
    pub(super) fn causes(&self, object: &Object, explained: bool) -> Vec<Cause> {
        let failures = FAILURES.iter().filter_map(|type_| self.condition(type_));
        let mut causes: Vec<Cause> = failures.map(|each| failure(object, each)).collect();
        let reported =
            |resource: &&str| explained && ["persistentvolumeclaims", "pods"].contains(resource);
        let remaining = self.remaining();
        let other = remaining.iter().find(|resource| !reported(resource));
        if let Some(condition) = self.condition(REMAINING)
            && (other.is_some() || remaining.is_empty())
        {
            let command = match other {
                // Not the whole objects: the content of Secrets would be printed.
                Some(other) => format!(
                    "kubectl get {other} -n {} -o custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers",
                    object.name.name
                ),
                None => object.describe(),
            };
            causes.push(self.others(object, condition, command));
        }
        causes
    }

    fn others(&self, object: &Object, condition: &NamespaceCondition, command: String) -> Cause {
        let finalizers = self.condition(FINALIZERS);
        let also = finalizers.map_or_else(String::new, |each| format!(" {}.", message(each)));
        let sentence = format!("{}.{also}", message(condition));
        Cause::new(Code::NamespaceContent, sentence, seen(object, condition)).run(
            command,
            "to see which finalizers hold these objects; then check the controllers of those finalizers",
        )
    }

    /// The resources of which objects remain, by the names that `kubectl` accepts.
    fn remaining(&self) -> Vec<&'a str> {
        let Some(condition) = self.condition(REMAINING) else {
            return Vec::new();
        };
        // The message to parse: `Some resources are remaining: pods. has 1 resource instances,
        // foos.example.com has 2 resource instances`
        let message = condition.message.as_deref().unwrap_or_default();
        let list = message.split_once(": ").map_or("", |(_, list)| list);
        let words = list.split(", ").filter_map(|each| each.split(' ').next());
        let resources = words.map(|word| word.trim_end_matches('.'));
        resources.filter(|resource| is_resource(resource)).collect()
    }

    fn condition(&self, type_: &str) -> Option<&'a NamespaceCondition> {
        let mut conditions = self.conditions.iter();
        conditions
            .find(|condition| condition.type_ == type_)
            .copied()
    }
}

/// Whether the word may be the name of a resource. It becomes a part of a command, and
/// any client that may write the status of namespaces may have written it.
fn is_resource(word: &str) -> bool {
    let permitted = |each: char| each.is_ascii_lowercase() || each.is_ascii_digit();
    let also = |each: char| permitted(each) || ".-".contains(each);
    word.starts_with(permitted) && word.chars().all(also)
}

fn failure(object: &Object, condition: &NamespaceCondition) -> Cause {
    let sentence = format!(
        "Kubernetes cannot list or delete all objects in the namespace: {}.",
        message(condition)
    );
    let cause = Cause::new(Code::NamespaceContent, sentence, seen(object, condition));
    if condition.type_ == FAILURES[0] {
        return cause.run(
            "kubectl get apiservices",
            "to see which APIService is not available; then check the Service that it names",
        );
    }
    cause.run(
        object.describe(),
        "to see all conditions of the namespace; Kubernetes retries the deletion",
    )
}

fn seen(object: &Object, condition: &NamespaceCondition) -> Evidence {
    let field = format!("status.conditions[{}]", condition.type_);
    let since = condition.last_transition_time.as_ref().map(|time| time.0);
    Evidence::new(object.to_string(), field).since(since)
}

fn message(condition: &NamespaceCondition) -> String {
    let message = condition.message.as_deref();
    quote::clause(message.unwrap_or("the condition has no message"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::Next;
    use serde_json::{Value, json};

    const SOME: &str = "Some resources are remaining: pods. has 1 resource instances, persistentvolumeclaims. has 2 resource instances";

    /// The commands for a namespace `shop` with these conditions.
    fn commands(conditions: &Value, explained: bool) -> Vec<String> {
        let namespace = json!({"metadata": {"name": "shop"}, "status": {"conditions": conditions}});
        let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
        let causes = Content::of(&namespace).causes(&Object::namespace("shop"), explained);
        let commands = causes.into_iter().map(|cause| match cause.next {
            Next::Run { command, .. } => command,
            Next::Nothing { meanwhile } => meanwhile,
        });
        commands.collect()
    }

    fn condition(type_: &str, status: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "message": message})
    }

    #[test]
    fn what_claims_explain_is_not_told_again() {
        let conditions = json!([condition(REMAINING, "True", SOME)]);
        assert_eq!(commands(&conditions, true), [""; 0]);
        assert_eq!(
            commands(&conditions, false),
            [
                "kubectl get pods -n shop -o custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers"
            ]
        );
        let more = format!("{SOME}, foos.example.com has 1 resource instances");
        let conditions = json!([condition(REMAINING, "True", &more)]);
        assert_eq!(
            commands(&conditions, true),
            [
                "kubectl get foos.example.com -n shop -o custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers"
            ]
        );
    }

    #[test]
    fn only_the_name_of_a_resource_becomes_a_part_of_a_command() {
        for word in ["--all;x", "pods;x", "$(x)", "Pods"] {
            let message = format!("Some resources are remaining: {word} has 1 resource instances");
            let conditions = json!([condition(REMAINING, "True", &message)]);
            let described = ["kubectl describe namespace shop"];
            assert_eq!(commands(&conditions, false), described, "{word}");
        }
    }

    #[test]
    fn an_api_that_does_not_answer_comes_first() {
        let conditions = json!([
            condition(REMAINING, "True", SOME),
            condition(
                FAILURES[0],
                "True",
                "metrics.k8s.io/v1beta1: stale GroupVersion discovery"
            ),
            condition(FAILURES[2], "False", "All content successfully deleted"),
        ]);
        let both = [
            "kubectl get apiservices",
            "kubectl get pods -n shop -o custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers",
        ];
        assert_eq!(commands(&conditions, false), both);
        let conditions = json!([condition(FAILURES[2], "True", "forbidden")]);
        assert_eq!(
            commands(&conditions, false),
            ["kubectl describe namespace shop"]
        );
    }

    #[test]
    fn before_anything_is_said_there_may_be_claims() {
        let may_have = |conditions: Value| {
            let namespace = json!({"metadata": {}, "status": {"conditions": conditions}});
            let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
            Content::of(&namespace).may_have("persistentvolumeclaims")
        };
        assert!(may_have(json!(null)) && may_have(json!([condition(REMAINING, "True", SOME)])));
        let others = "Some resources are remaining: pods. has 1 resource instances";
        assert!(!may_have(json!([condition(REMAINING, "True", others)])));
    }
}
