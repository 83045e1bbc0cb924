//! Tests of how the StatefulSet of a claim is found.

use super::*;
use crate::objects::{claim::ClaimWire, stateful_set::StatefulSetWire};
use serde_json::json;
use std::sync::Arc;

/// A StatefulSet with this uid and these `matchLabels`, as `key=value`.
fn set(uid: &str, match_labels: &str) -> Arc<StatefulSet> {
    let labels: serde_json::Map<_, _> = match_labels
        .split_whitespace()
        .filter_map(|label| label.split_once('='))
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    let wire = json!({"metadata": {"uid": uid}, "spec": {"selector": {"matchLabels": labels}}});
    let wire: StatefulSetWire = serde_json::from_value(wire).expect("a set");
    Arc::new(wire.into())
}

/// A claim with these properties: `key=value` is a label, `owner:uid` an owner reference,
/// `mark:uid` the marker.
fn claim(name: &str, has: &str) -> Claim {
    let mut metadata =
        json!({"name": name, "labels": {"other": "x"}, "annotations": {}, "ownerReferences": []});
    for each in has.split_whitespace() {
        if let Some((key, value)) = each.split_once('=') {
            metadata["labels"][key] = json!(value);
        } else if let Some(uid) = each.strip_prefix("owner:") {
            let owner =
                json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": uid});
            metadata["ownerReferences"] = json!([owner]);
        } else if let Some(uid) = each.strip_prefix("mark:") {
            metadata["annotations"]["volume-warden.dev/scaled-with"] = json!(uid);
        }
    }
    let wire: ClaimWire = serde_json::from_value(json!({"metadata": metadata})).expect("a claim");
    wire.into()
}

/// The uid of the StatefulSet that the claim belongs to. `sets` are `uid: matchLabels`; the pods of
/// the StatefulSets in `mounting` mount the claim.
fn chosen(name: &str, sets: &[(&str, &str)], has: &str, mounting: &[&str]) -> Option<String> {
    let candidates = sets.iter().map(|(uid, labels)| Candidate {
        reading: readings(name).next().expect("a reading"),
        set: set(uid, labels),
    });
    let mounts =
        |each: &Candidate<'_, Arc<StatefulSet>>| mounting.iter().any(|uid| each.set.uid == uid);
    let found = resolve_set(name, &claim(name, has), candidates.collect(), mounts);
    found.map(|each| each.set.uid.to_string())
}

/// Kubernetes' own controller decides by the name, whatever the labels are: claims that were
/// restored or created manually are adopted.
#[test]
fn a_name_with_one_reading_decides() {
    for (labels, has) in [
        ("app=x", ""),
        ("app=x", "app=x"),
        ("app=x", "app=other"),
        ("", ""),
    ] {
        let found = chosen("data-web-0", &[("x", labels)], has, &[]);
        assert_eq!(found.as_deref(), Some("x"), "{labels} {has}");
    }
    assert_eq!(chosen("data-web-0", &[], "app=x", &[]), None);
}

#[test]
fn an_ambiguous_name_needs_evidence() {
    let (x, y) = (("x", "app=x"), ("y", "app=y"));
    let (expressions, both) = (("e", ""), ("b", "app=x tier=db"));
    for (sets, has, mounting, expected) in [
        (vec![], "app=x", vec![], None),
        // One StatefulSet exists: the claim belongs to it only if the labels match.
        (vec![x], "app=x", vec![], Some("x")),
        (vec![x], "", vec![], None),
        (vec![x], "app=other", vec![], None),
        (vec![x], "tier=db", vec![], None),
        (vec![both], "app=x", vec![], None),
        (vec![both], "app=x tier=db", vec![], Some("b")),
        // A pod takes precedence over labels.
        (vec![x], "", vec!["x"], Some("x")),
        (vec![x], "app=other", vec!["x"], Some("x")),
        (vec![x, y], "app=y", vec!["x"], Some("x")),
        (vec![x, y], "app=y owner:y", vec!["x", "y"], None),
        // Two StatefulSets exist: the claim belongs to the only one whose labels match.
        (vec![x, y], "", vec![], None),
        (vec![x, y], "app=y", vec![], Some("y")),
        (vec![x, y], "app=z", vec![], None),
        (vec![x, both], "app=x tier=db", vec![], None),
        // Labels are no evidence for or against a set without `matchLabels`.
        (vec![expressions], "app=x", vec![], None),
        (vec![expressions], "", vec![], None),
        (vec![expressions], "", vec!["e"], Some("e")),
        (vec![expressions, y], "app=y", vec![], Some("y")),
        // An earlier assignment of the claim remains, so that its writes can be reverted.
        (vec![x], "owner:x", vec![], Some("x")),
        (vec![x], "mark:x", vec![], Some("x")),
        (vec![x, y], "owner:x", vec![], Some("x")),
        (vec![expressions], "owner:e", vec![], Some("e")),
        (vec![x, both], "app=x tier=db owner:x", vec![], Some("x")),
        (vec![x, y], "app=y owner:x", vec![], Some("y")),
        (vec![x, y], "owner:z", vec![], None),
    ] {
        assert_eq!(
            chosen("a-b-c-0", &sets, has, &mounting).as_deref(),
            expected,
            "{sets:?} {has:?} {mounting:?}"
        );
    }
}

/// A claim whose name has too many readings belongs to no StatefulSet, because it would cost too
/// many reads.
#[test]
fn a_name_with_too_many_readings_belongs_to_no_set() {
    let name = |readings: usize| format!("{}c-0", "a-".repeat(readings));
    assert_eq!(readings(&name(READINGS)).count(), READINGS);
    let chosen = |name: &str| chosen(name, &[("x", "app=x")], "app=x", &["x"]);
    assert_eq!(chosen(&name(READINGS)).as_deref(), Some("x"));
    assert_eq!(chosen(&name(READINGS + 1)), None);
}

#[test]
fn a_set_with_very_many_labels_makes_an_ambiguous_name_belong_to_none() {
    let labels = |count: usize| {
        let labels = (0..count).map(|number| format!("l{number}=x"));
        labels.collect::<Vec<_>>().join(" ")
    };
    for (count, expected) in [(MAX_LABELS, Some("a")), (MAX_LABELS + 1, None)] {
        let many = labels(count);
        let sets = [("a", many.as_str()), ("b", "app=x")];
        let found = chosen("data-web-data-0", &sets, &many, &[]);
        assert_eq!(found.as_deref(), expected, "{count}");
        let both = format!("{many} app=x");
        assert_eq!(chosen("data-web-data-0", &sets, &both, &[]), None);
        assert_eq!(
            chosen("data-web-data-0", &sets, "", &["b"]),
            Some("b".to_owned())
        );
    }
}
