//! The webhook that removes the binder's annotations from claims that users create.
//!
//! A claim with `pv.kubernetes.io/bind-completed` counts as bound. kube-controller-manager then
//! binds it to the volume that `spec.volumeName` names if that volume has no `claimRef`, as after a
//! release in the scope `cluster`, whatever the class, the size and the access modes are: so any
//! user who may create claims could take any such volume with its data. The API server sends only
//! claims of users who may not change volumes.
//!
//! Source: `syncBoundClaim` in `pkg/controller/volume/persistentvolume/pv_controller.go` of
//! Kubernetes.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    objects::{claim::ClaimWire, keys::BINDER_PREFIX, patch::remove},
};
use std::{collections::BTreeMap, time::Duration};

/// The webhook that removes annotations of the binder from new claims.
pub fn strip_binding_hook() -> Hook {
    Hook {
        path: "/pv-releaser/claims",
        rules: &[Rule("CREATE", "persistentvolumeclaims")],
        timeout: Duration::from_secs(1),
        review: Review::from_memory(review),
    }
}

fn review(request: &Request) -> Reviewed {
    let claim = request.object::<ClaimWire>()?;
    let annotations = claim.metadata.annotations.iter();
    let keys = annotations
        .flat_map(BTreeMap::keys)
        .filter(|key| key.starts_with(BINDER_PREFIX));
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
         only users who may patch persistentvolumes may create claims with them"
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

    fn answer(annotations: Value) -> Answer {
        let review = json!({
            "uid": "review", "operation": "CREATE", "namespace": "ns", "name": "data", "userInfo": {"username": "jane"},
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
            "object": {"metadata": {"name": "data", "annotations": annotations}},
        });
        let request = serde_json::from_value(review).expect("a request");
        let hook = strip_binding_hook();
        assert!(hook.rules.iter().all(|rule| rule.covers(&request)));
        hook.review.remembered(&request).expect("an answer")
    }

    #[test]
    fn annotations_of_the_binder_are_removed_with_a_warning() {
        assert_eq!(answer(json!({"team": "a"})), Answer::Allow);
        assert_eq!(answer(Value::Null), Answer::Allow);
        let annotations = json!({
            "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
            "volume.kubernetes.io/storage-provisioner": "p", "team": "a",
        });
        let Answer::Patch {
            operations,
            warnings,
            ..
        } = answer(annotations.clone())
        else {
            unreachable!("two annotations are removed");
        };
        let mut claim = json!({"metadata": {"annotations": annotations}});
        json_patch::patch(&mut claim, &operations).expect("applies");
        let left = json!({"volume.kubernetes.io/storage-provisioner": "p", "team": "a"});
        assert_eq!(claim["metadata"]["annotations"], left);
        assert_eq!(warnings.len(), 1);
    }
}
