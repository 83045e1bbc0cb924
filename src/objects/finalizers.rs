//! Finalizers: who needs one, who waits for one, and the JSON patches that change the list.
//!
//! Source: `pkg/controller/volume/protectionutil` and `plugin/pkg/admission/storage/storageobjectinuseprotection` of Kubernetes.

use super::patch;
use json_patch::PatchOperation;
use serde_json::json;

/// A claim that carries it stays until nothing uses the claim. The kubelet knows this very name: a deleting claim without it
/// is refused to a pod, so no other name would do.
pub const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";

/// A volume that carries it stays until it is no longer Bound.
pub const PV_PROTECTION: &str = "kubernetes.io/pv-protection";

const FIELD: &str = "finalizers";

/// Where an object stands between its deletion and its finalizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerState {
    /// It lives and lacks the finalizer.
    NeedsFinalizer,
    /// It is being deleted and the finalizer is what we hold it by.
    DeletionCandidate,
    /// It lives with the finalizer, or goes without it: nothing to do.
    Settled,
}

/// Which of the three an object is.
pub fn finalizer_state(deleting: bool, finalizers: &[Box<str>], finalizer: &str) -> FinalizerState {
    match (deleting, has(finalizers, finalizer)) {
        (false, false) => FinalizerState::NeedsFinalizer,
        (true, true) => FinalizerState::DeletionCandidate,
        (false, true) | (true, false) => FinalizerState::Settled,
    }
}

/// Whether the list has the finalizer.
pub fn has(finalizers: &[Box<str>], finalizer: &str) -> bool {
    finalizers.iter().any(|each| &**each == finalizer)
}

/// The finalizer appended after those already there. The caller makes sure, by a `resourceVersion` test or because the
/// object is not stored yet, that the list is still the one given.
pub fn append(finalizers: &[Box<str>], finalizer: &str) -> PatchOperation {
    if finalizers.is_empty() {
        patch::add(&[FIELD], json!([finalizer]))
    } else {
        patch::add(&[FIELD, "-"], json!(finalizer))
    }
}

/// Every occurrence of the finalizer removed, each behind a `test` that it is still at its place: a list that changed meanwhile
/// fails the patch instead of losing another controller's finalizer.
pub fn remove(finalizers: &[Box<str>], finalizer: &str) -> Vec<PatchOperation> {
    let places = finalizers
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, each)| &***each == finalizer);
    places
        .flat_map(|(index, _)| {
            let place = index.to_string();
            [
                patch::test(&[FIELD, &place], json!(finalizer)),
                patch::remove(&[FIELD, &place]),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn list(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|&name| name.into()).collect()
    }

    fn patched(
        before: &Value,
        operations: &[PatchOperation],
    ) -> Result<Value, json_patch::PatchError> {
        let mut after = before.clone();
        json_patch::patch(&mut after, operations).map(|()| after)
    }

    /// PVC-22..29: the same eight rows hold for claims and volumes.
    #[test]
    fn standing_follows_deletion_and_finalizer() {
        for (deleting, finalizers, expected) in [
            (false, list(&[]), FinalizerState::NeedsFinalizer),
            (false, list(&["other"]), FinalizerState::NeedsFinalizer),
            (
                false,
                list(&["other", PVC_PROTECTION]),
                FinalizerState::Settled,
            ),
            (true, list(&[]), FinalizerState::Settled),
            (true, list(&["other"]), FinalizerState::Settled),
            (
                true,
                list(&["other", PVC_PROTECTION]),
                FinalizerState::DeletionCandidate,
            ),
        ] {
            assert_eq!(
                finalizer_state(deleting, &finalizers, PVC_PROTECTION),
                expected,
                "{deleting} {finalizers:?}"
            );
        }
    }

    #[test]
    fn the_finalizer_is_appended_last() {
        let none = patched(&json!({"metadata": {}}), &[append(&[], "a")]).expect("applies");
        assert_eq!(none, json!({"metadata": {"finalizers": ["a"]}}));
        let one = patched(
            &json!({"metadata": {"finalizers": ["x"]}}),
            &[append(&list(&["x"]), "a")],
        )
        .expect("applies");
        assert_eq!(one, json!({"metadata": {"finalizers": ["x", "a"]}}));
    }

    #[test]
    fn every_occurrence_is_removed_and_no_other() {
        let before = json!({"metadata": {"finalizers": ["a", "x", "a", "y"]}});
        let after = patched(&before, &remove(&list(&["a", "x", "a", "y"]), "a")).expect("applies");
        assert_eq!(after, json!({"metadata": {"finalizers": ["x", "y"]}}));
    }

    #[test]
    fn a_list_that_changed_meanwhile_fails_the_removal() {
        let changed = json!({"metadata": {"finalizers": ["new", "a"]}});
        assert!(patched(&changed, &remove(&list(&["a"]), "a")).is_err());
    }
}
