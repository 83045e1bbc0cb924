//! The webhook that removes the marker of pvc-retention from a claim, unless the StatefulSet
//! controller or Volume Warden has added it.
//!
//! A claim that a user creates from the manifest of another claim, or from a backup, has not been
//! in range of a StatefulSet, so it must not carry the marker: with the marker, Volume Warden could
//! delete a claim that a user creates in advance, for an ordinal that is still out of range. The
//! user may apply the manifest again and again, as GitOps controllers do, so updates are reviewed
//! as well.

use super::webhooks::is_made_for_a_set;
use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule, without_added_annotation},
    objects::claim::{ClaimWire, SCALED_WITH},
};
use std::time::Duration;

/// The webhook that removes the marker unless the StatefulSet controller, or another controller
/// with the same user, has written it. The webhook configuration excludes the requests of Volume
/// Warden's service account.
pub fn strip_marker_hook() -> Hook {
    Hook {
        path: "/pvc-retention/marks",
        rules: &[
            Rule("CREATE", "persistentvolumeclaims"),
            Rule("UPDATE", "persistentvolumeclaims"),
        ],
        timeout: Duration::from_secs(2),
        review: Review::from_memory(review),
    }
}

fn review(request: &Request) -> Reviewed {
    if is_made_for_a_set(request) {
        return Ok(Answer::Allow);
    }
    without_added_annotation::<ClaimWire>(request, SCALED_WITH, |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn answer(operation: &str, user: &str, before: &Value, annotations: &Value) -> Answer {
        let claim = |annotations: &Value| {
            let metadata = json!({"name": "data-web-5", "annotations": annotations});
            json!({"metadata": metadata})
        };
        let before = (operation == "UPDATE").then(|| claim(before));
        let review = json!({
            "uid": "review", "operation": operation, "namespace": "ns", "name": "data-web-5", "userInfo": {"username": user},
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
            "object": claim(annotations), "oldObject": before,
        });
        let request = serde_json::from_value(review).expect("a request");
        let answer = strip_marker_hook().review.remembered(&request);
        answer.expect("an answer")
    }

    #[test]
    fn a_mark_from_elsewhere_is_taken_away() {
        let (plain, none) = (json!({"other": "stays"}), json!(null));
        let marked = json!({SCALED_WITH: "uid", "other": "stays"});
        let another = json!({SCALED_WITH: "another"});
        let controller = "system:serviceaccount:kube-system:statefulset-controller";
        for (operation, user, before, after, removed) in [
            ("CREATE", controller, &none, &marked, false),
            ("CREATE", "jane", &none, &plain, false),
            ("CREATE", "jane", &none, &marked, true),
            ("UPDATE", controller, &plain, &marked, false),
            ("UPDATE", "jane", &none, &marked, true),
            ("UPDATE", "jane", &plain, &marked, true),
            ("UPDATE", "jane", &another, &marked, true),
            ("UPDATE", "jane", &marked, &marked, false),
            ("UPDATE", "jane", &marked, &plain, false),
        ] {
            let answer = answer(operation, user, before, after);
            let case = format!("{operation} {user} {before} {after}");
            if !removed {
                assert_eq!(answer, Answer::Allow, "{case}");
                continue;
            }
            let Answer::Patch { operations, .. } = answer else {
                unreachable!("{case}: {answer:?}");
            };
            let mut claim = json!({"metadata": {"annotations": after}});
            json_patch::patch(&mut claim, &operations).expect("applies");
            assert_eq!(claim, json!({"metadata": {"annotations": plain}}), "{case}");
        }
    }
}
