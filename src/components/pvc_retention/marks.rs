//! The webhook that removes the marker of pvc-retention from claims that others than the
//! StatefulSet controller create.
//!
//! A claim that a user creates from the manifest of another claim, or from a backup, has not been
//! in range of a StatefulSet, so it must not carry the marker: with the marker, Volume Warden could
//! delete a claim that a user creates in advance, for an ordinal that is still out of range.

use super::webhooks::{CREATE_CLAIM, is_made_for_a_set};
use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed},
    objects::claim::{ClaimWire, SCALED_WITH},
};
use std::time::Duration;

/// The webhook that removes the marker from every new claim, except from those created by the
/// StatefulSet controller or a controller that shares its user.
pub fn strip_marker_hook() -> Hook {
    Hook {
        path: "/pvc-retention/marks",
        rules: CREATE_CLAIM,
        timeout: Duration::from_secs(2),
        review: Review::from_memory(review),
    }
}

fn review(request: &Request) -> Reviewed {
    let claim = request.object::<ClaimWire>()?;
    if is_made_for_a_set(request) {
        return Ok(Answer::Allow);
    }
    Ok(Answer::without_annotation(&claim.metadata, SCALED_WITH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn answer(user: &str, annotations: Value) -> Answer {
        let review = json!({
            "uid": "review", "operation": "CREATE", "namespace": "ns", "name": "data-web-5", "userInfo": {"username": user},
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
            "object": {"metadata": {"name": "data-web-5", "annotations": annotations}},
        });
        let request = serde_json::from_value(review).expect("a request");
        let answer = strip_marker_hook().review.remembered(&request);
        answer.expect("an answer")
    }

    #[test]
    fn a_mark_from_elsewhere_is_taken_away() {
        let marked = json!({SCALED_WITH: "uid", "other": "stays"});
        let controller = "system:serviceaccount:kube-system:statefulset-controller";
        assert_eq!(answer(controller, marked.clone()), Answer::Allow);
        assert_eq!(answer("jane", json!({"other": "stays"})), Answer::Allow);
        let Answer::Patch { operations, .. } = answer("jane", marked.clone()) else {
            unreachable!("the marker is removed");
        };
        let mut claim = json!({"metadata": {"annotations": marked}});
        json_patch::patch(&mut claim, &operations).expect("applies");
        assert_eq!(
            claim,
            json!({"metadata": {"annotations": {"other": "stays"}}})
        );
    }
}
