//! S10: a second review of the object that a first review returned changes nothing again.

use super::{
    Found,
    ledger::Ledger,
    reviews::{self, patched},
};
use crate::json::{at, namespace, text, uid};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use volume_warden_apiserver_model::WebhookCall;

/// The path of the annotation by which a claim requests the data of a deleted one.
const UNDELETE: &str = "/metadata/annotations/volume-warden.dev/undelete";

/// A review, and a second review of the object as the first answer patched it.
pub struct Repeated {
    /// The virtual millisecond in which the first review began.
    pub first_began: u64,
    /// The virtual millisecond in which the second review began.
    pub began: u64,
    /// The object of the first review.
    pub original: Value,
}

/// Checks the answer to the second review: it does not change a field again that the first one
/// changed. It may change another field, because a read of the first review may have failed, and it
/// may refuse what has become invalid meanwhile.
pub fn check(
    ledger: &Ledger,
    repeated: &Repeated,
    call: &WebhookCall<'_>,
    answer: &Value,
) -> Found {
    let object = at(call.review, "/request/object")?;
    let Some(result) = patched(object, answer) else {
        return reviews::check(ledger, repeated.began, call, answer);
    };
    let first = changes(&repeated.original, object);
    let second = changes(object, &result);
    let mut twice = first.intersection(&second);
    let field = twice.find(|field| !may_differ(ledger, repeated, call, &second, field))?;
    let message = format!("{} changed {field} of its own result", call.webhook);
    Some(("S10", message))
}

/// Whether the input of the webhook's decision about the field may have changed between the two
/// reviews.
fn may_differ(
    ledger: &Ledger,
    repeated: &Repeated,
    call: &WebhookCall<'_>,
    changed: &BTreeSet<String>,
    field: &str,
) -> bool {
    match call.webhook.trim_end_matches(".volume-warden.dev") {
        // A StatefulSet was created, deleted, or got another policy, and one of the reviews read
        // that from a cache.
        "claims.pvc-retention" => {
            field != "/metadata/finalizers" && may_be_another_set(ledger, repeated, call)
        }
        // The first review may give a volume whose claim is deleted although the cache still shows
        // it as Bound. The second one looks for the claim in the trash, as for any claim that
        // requests data: it does not find that volume there yet. It may find an older one, or
        // remove the request as that of a copy. The API server sends no second one:
        // `reinvocationPolicy` is Never.
        "claims.pvc-trash" => changed.contains("/spec/volumeName") || field == UNDELETE,
        _ => false,
    }
}

fn may_be_another_set(ledger: &Ledger, repeated: &Repeated, call: &WebhookCall<'_>) -> bool {
    let since = repeated.first_began.saturating_sub(ledger.plan.late());
    let removed = ledger.removed_since(since);
    let mut sets = ledger.all("statefulsets").chain(removed);
    !ledger.plan.is_calm()
        || sets.any(|set| {
            namespace(set) == text(call.review, "/request/namespace")
                && ledger.changes_since(uid(set), since) > 0
        })
}

/// The paths of the fields that differ. A list is one field.
fn changes(before: &Value, after: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    compare(before, after, String::new(), &mut found);
    found
}

fn compare(before: &Value, after: &Value, path: String, found: &mut BTreeSet<String>) {
    if before == after {
        return;
    }
    let empty = Map::new();
    let fields = |value: &Value| value.is_null() || value.is_object();
    if !fields(before) || !fields(after) {
        found.insert(path);
        return;
    }
    let [one, other] = [before, after].map(|each| each.as_object().unwrap_or(&empty));
    for key in one.keys().chain(other.keys()) {
        let [one, other] = [one, other].map(|each| each.get(key).unwrap_or(&Value::Null));
        compare(one, other, format!("{path}/{key}"), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_is_one_field_and_a_missing_map_is_empty() {
        let before = json!({"metadata": {"finalizers": ["a"], "name": "n"}});
        let after =
            json!({"metadata": {"finalizers": ["a", "b"], "name": "n", "labels": {"k": "v"}}});
        let found = changes(&before, &after);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["/metadata/finalizers", "/metadata/labels/k"]
        );
        assert!(changes(&after, &after).is_empty());
    }
}
