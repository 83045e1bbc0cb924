//! The webhook that removes the binder's annotations from claims to which users add them.
//!
//! A claim with `pv.kubernetes.io/bind-completed` counts as bound. kube-controller-manager then
//! binds it to the volume that `spec.volumeName` names if that volume has no `claimRef`, as after a
//! release in the scope `cluster`, whatever the class, the size and the access modes are: so any
//! user who may create or update claims could take any such volume with its data. The API server
//! sends only claims of users who may not change volumes.
//!
//! Source: `syncBoundClaim` in `pkg/controller/volume/persistentvolume/pv_controller.go` of
//! Kubernetes.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    objects::{claim::ClaimWire, keys::BINDER_PREFIX, patch::remove},
};
use std::{collections::BTreeMap, time::Duration};

/// The webhook that removes annotations of the binder that a user adds to a claim.
pub fn strip_binding_hook() -> Hook {
    Hook {
        path: "/pv-releaser/claims",
        rules: &[
            Rule("CREATE", "persistentvolumeclaims"),
            Rule("UPDATE", "persistentvolumeclaims"),
        ],
        timeout: Duration::from_secs(1),
        review: Review::from_memory(review),
    }
}

fn review(request: &Request) -> Reviewed {
    let claim = request.object::<ClaimWire>()?;
    let before = request.object_before::<ClaimWire>()?;
    let before = before.and_then(|claim| claim.metadata.annotations);
    let before = before.unwrap_or_default();
    let annotations = claim.metadata.annotations.iter();
    let keys = annotations
        .flat_map(BTreeMap::keys)
        .filter(|key| key.starts_with(BINDER_PREFIX) && !before.contains_key(*key));
    let operations: Vec<_> = keys.map(|key| remove(&["annotations", key])).collect();
    if operations.is_empty() {
        return Ok(Answer::Allow);
    }
    let what = format!(
        "remove the annotations under {BINDER_PREFIX} from the claim, because this user may not \
         write them"
    );
    let warning = format!(
        "the annotations under {BINDER_PREFIX} were removed from the claim: they state that it is bound, and \
         only users who may patch or update persistentvolumes may add them"
    );
    Ok(Answer::Patch {
        operations,
        what,
        warnings: vec![warning],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn answer(operation: &str, annotations: Value, before: Value) -> Answer {
        let review = json!({
            "uid": "review", "operation": operation, "namespace": "ns", "name": "data", "userInfo": {"username": "jane"},
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
            "object": {"metadata": {"name": "data", "annotations": annotations}},
            "oldObject": before,
        });
        let request = serde_json::from_value(review).expect("a request");
        let hook = strip_binding_hook();
        assert!(hook.rules.iter().any(|rule| rule.covers(&request)));
        hook.review.remembered(&request).expect("an answer")
    }

    fn created(annotations: Value) -> Answer {
        answer("CREATE", annotations, Value::Null)
    }

    #[test]
    fn annotations_of_the_binder_are_removed_with_a_warning() {
        assert_eq!(created(json!({"team": "a"})), Answer::Allow);
        assert_eq!(created(Value::Null), Answer::Allow);
        let annotations = json!({
            "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
            "volume.kubernetes.io/storage-provisioner": "p", "team": "a",
        });
        let Answer::Patch {
            operations,
            warnings,
            ..
        } = created(annotations.clone())
        else {
            unreachable!("two annotations are removed");
        };
        let mut claim = json!({"metadata": {"annotations": annotations}});
        json_patch::patch(&mut claim, &operations).expect("applies");
        let left = json!({"volume.kubernetes.io/storage-provisioner": "p", "team": "a"});
        assert_eq!(claim["metadata"]["annotations"], left);
        assert_eq!(warnings.len(), 1);
    }

    /// A claim that the binder has bound keeps its annotations, whatever else a user changes.
    #[test]
    fn of_an_update_only_added_annotations_are_removed() {
        let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
        let before = json!({"metadata": {"name": "data", "annotations": bound}});
        assert_eq!(answer("UPDATE", bound.clone(), before), Answer::Allow);
        let pending = json!({"metadata": {"name": "data", "annotations": {"team": "a"}}});
        let Answer::Patch { operations, .. } = answer("UPDATE", bound.clone(), pending) else {
            unreachable!("an annotation is removed");
        };
        let mut claim = json!({"metadata": {"annotations": bound}});
        json_patch::patch(&mut claim, &operations).expect("applies");
        assert_eq!(claim["metadata"]["annotations"], json!({}));
    }
}
