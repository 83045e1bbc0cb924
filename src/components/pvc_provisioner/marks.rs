//! The webhook that removes the marker of pvc-provisioner if another client adds it to a claim.
//!
//! A claim that a user creates from another claim's manifest, or from a backup, was not created for
//! a pod. With the marker, Volume Warden could delete it as an orphan. The client may apply the
//! manifest again and again, as GitOps controllers do, so updates are reviewed as well.
//!
//! The marker counts only with the label [`PROVISIONER_LABEL`]. The webhook configuration selects
//! claims by it, so a marker without the label stays until the label is added.

use crate::{
    admission::{Hook, Request, Review, Reviewed, Rule, without_added_annotation},
    objects::{
        claim::{AWAITING_POD, ClaimWire},
        managed_by::PROVISIONER_LABEL,
    },
};
use kube::ResourceExt as _;
use std::time::Duration;

/// The webhook that removes the marker if another client writes it. The webhook configuration
/// excludes the requests of Volume Warden's service account.
pub fn strip_marker_hook() -> Hook {
    Hook {
        path: "/pvc-provisioner/marks",
        rules: &[
            Rule("CREATE", "persistentvolumeclaims"),
            Rule("UPDATE", "persistentvolumeclaims"),
        ],
        timeout: Duration::from_secs(2),
        review: Review::from_memory(review),
    }
}

fn review(request: &Request) -> Reviewed {
    without_added_annotation(request, AWAITING_POD, |before: &ClaimWire| {
        before.labels().contains_key(PROVISIONER_LABEL)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Answer;
    use serde_json::{Value, json};

    fn is_removed(before: &Value, after: &Value) -> bool {
        let claim = |metadata: &Value| json!({"metadata": metadata});
        let review = json!({
            "uid": "review", "operation": if before.is_null() { "CREATE" } else { "UPDATE" },
            "namespace": "ns", "name": "c", "userInfo": {"username": "jane"},
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
            "object": claim(after), "oldObject": (!before.is_null()).then(|| claim(before)),
        });
        let request = serde_json::from_value(review).expect("a request");
        let answer = strip_marker_hook().review.remembered(&request);
        match answer.expect("an answer") {
            Answer::Allow => false,
            Answer::Patch { operations, .. } => {
                assert_eq!(
                    operations,
                    [crate::objects::patch::remove(&[
                        "annotations",
                        AWAITING_POD
                    ])]
                );
                true
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_marker_is_removed_when_it_begins_to_count() {
        let metadata = |mark: Option<&str>, id: Option<&str>| {
            let mark = mark.map(|mark| json!({AWAITING_POD: mark}));
            json!({"annotations": mark, "labels": id.map(|id| json!({PROVISIONER_LABEL: id}))})
        };
        let (mark, id) = (Some("2026-01-01T00:00:00Z"), Some("id"));
        let own = metadata(mark, id);
        for (before, after, removed) in [
            (Value::Null, own.clone(), true),
            (Value::Null, metadata(None, id), false),
            (metadata(None, id), own.clone(), true),
            (metadata(Some("other"), id), own.clone(), true),
            // The marker was added without a review, because the claim had no label.
            (metadata(mark, None), own.clone(), true),
            (own.clone(), own.clone(), false),
            (own.clone(), metadata(mark, Some("other")), false),
            (own, metadata(None, None), false),
        ] {
            assert_eq!(is_removed(&before, &after), removed, "{before} {after}");
        }
    }
}
