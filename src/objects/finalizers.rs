//! Finalizers: which objects need one, which may lose one, and the JSON patches that change the
//! list.
//!
//! Source: `pkg/controller/volume/protectionutil` and
//! `plugin/pkg/admission/storage/storageobjectinuseprotection` of Kubernetes.

pub use super::keys::{PV_PROTECTION, PVC_PROTECTION};
use super::patch;
use json_patch::PatchOperation;
use serde_json::json;
use std::sync::{Arc, LazyLock};

const FIELD: &str = "finalizers";

/// The finalizers of an object, in its order. The value is a single pointer, because each claim in
/// memory has one.
pub type Finalizers = Arc<Vec<Box<str>>>;

/// The lists of finalizers that most claims and many volumes have. All objects with such a list
/// share one copy of it.
static COMMON: LazyLock<[Finalizers; 2]> =
    LazyLock::new(|| [PVC_PROTECTION, PV_PROTECTION].map(|only| Arc::new(vec![only.into()])));

/// What an object needs with regard to a protection finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerState {
    /// The object is not being deleted and lacks the finalizer.
    NeedsFinalizer,
    /// The object is being deleted and has the finalizer, which is removed when the object is not
    /// in use.
    DeletionCandidate,
    /// The object needs no change: it is not being deleted and has the finalizer, or is being
    /// deleted and lacks it.
    UpToDate,
}

/// Returns what an object needs with regard to `finalizer`.
pub fn finalizer_state(deleting: bool, finalizers: &[Box<str>], finalizer: &str) -> FinalizerState {
    match (deleting, has(finalizers, finalizer)) {
        (false, false) => FinalizerState::NeedsFinalizer,
        (true, true) => FinalizerState::DeletionCandidate,
        (false, true) | (true, false) => FinalizerState::UpToDate,
    }
}

/// Returns the list of an object's finalizers. Objects that have only a protection finalizer share
/// the memory of the list.
pub fn shared(finalizers: Vec<String>) -> Finalizers {
    let common = COMMON.iter().find(|list| {
        let list = list.iter().map(|each| &**each);
        list.eq(finalizers.iter().map(String::as_str))
    });
    match common {
        Some(list) => list.clone(),
        None => Arc::new(finalizers.into_iter().map(Into::into).collect()),
    }
}

/// Returns whether the list contains the finalizer.
pub fn has(finalizers: &[Box<str>], finalizer: &str) -> bool {
    finalizers.iter().any(|each| &**each == finalizer)
}

/// Appends the finalizer to the list. The caller ensures that the list is unchanged, by a
/// `resourceVersion` test or because the object is not stored yet.
pub fn append(finalizers: &[Box<str>], finalizer: &str) -> PatchOperation {
    if finalizers.is_empty() {
        patch::add(&[FIELD], json!([finalizer]))
    } else {
        patch::add(&[FIELD, "-"], json!(finalizer))
    }
}

/// How often one patch removes a finalizer, two operations each. The API server refuses a patch of
/// more than 10,000 operations.
///
/// Source: `maxJSONPatchOperations` in `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.
const MAX_REMOVALS: usize = 1_000;

/// Removes every occurrence of the finalizer, but at most the last [`MAX_REMOVALS`]: the object
/// then still has the finalizer, and the next decision removes it again. A `test` before each
/// removal checks that the finalizer still has its index: if the list has changed, the patch fails
/// instead of removing another controller's finalizer.
pub fn remove(finalizers: &[Box<str>], finalizer: &str) -> Vec<PatchOperation> {
    let places = finalizers
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, each)| &***each == finalizer);
    places
        .take(MAX_REMOVALS)
        .flat_map(|(index, _)| {
            let place = index.to_string();
            [
                patch::test(&[FIELD, &place], json!(finalizer)),
                patch::remove(&[FIELD, &place]),
            ]
        })
        .collect()
}

/// Removes the finalizer as [`remove`] does, from an object that is being deleted. If it is the
/// only one, the object is gone with this write, and its `managedFields` are emptied as well, so
/// that the API server does not compute them in vain. A `test` of the whole list ensures that no
/// other finalizer keeps the object. Only a webhook that adds the finalizer again would.
///
/// Source: `isResetManagedFields` in `k8s.io/apimachinery/pkg/util/managedfields/internal`.
pub fn remove_from_deleted(finalizers: &[Box<str>], finalizer: &str) -> Vec<PatchOperation> {
    match finalizers {
        [only] if **only == *finalizer => vec![
            patch::test(&[FIELD], json!([finalizer])),
            patch::add(&["managedFields"], json!([{}])),
            patch::remove(&[FIELD]),
        ],
        _ => remove(finalizers, finalizer),
    }
}

/// Returns whether the object still has the finalizer after the patch of [`remove`].
pub fn remain(finalizers: &[Box<str>], finalizer: &str) -> bool {
    let same = finalizers.iter().filter(|each| &***each == finalizer);
    same.count() > MAX_REMOVALS
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn lists_of_one_protection_finalizer_share_their_memory() {
        let twice = |names: &[&str]| {
            let read = || shared(names.iter().map(|&name| name.to_owned()).collect());
            let (first, second) = (read(), read());
            assert_eq!(first.to_vec(), list(names));
            Arc::ptr_eq(&first, &second)
        };
        assert!(twice(&[PVC_PROTECTION]) && twice(&[PV_PROTECTION]));
        for own in [
            &[PVC_PROTECTION, "x"] as &[&str],
            &["x"],
            &[PVC_PROTECTION; 2],
        ] {
            assert!(!twice(own), "{own:?}");
        }
    }

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
                FinalizerState::UpToDate,
            ),
            (true, list(&[]), FinalizerState::UpToDate),
            (true, list(&["other"]), FinalizerState::UpToDate),
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
    fn the_managed_fields_of_an_object_that_stays_are_not_touched() {
        let object = |finalizers: &[&str]| {
            let fields = json!([{"manager": "kubectl"}]);
            json!({"metadata": {"finalizers": finalizers, "managedFields": fields}})
        };
        let removed = |before: &[&str], now: &[&str]| {
            let operations = remove_from_deleted(&list(before), "a");
            patched(&object(now), &operations)
        };
        let gone = removed(&["a"], &["a"]).expect("applies");
        assert_eq!(gone, json!({"metadata": {"managedFields": [{}]}}));
        for before in [&["a", "x"], &["x", "a"]] {
            assert_eq!(removed(before, before).expect("applies"), object(&["x"]));
        }
        assert_eq!(removed(&["x"], &["x"]).expect("applies"), object(&["x"]));
        assert!(
            removed(&["a"], &["a", "x"]).is_err(),
            "x was added meanwhile"
        );
    }

    #[test]
    fn a_finalizer_that_is_repeated_very_often_is_removed_by_several_patches() {
        let mut before: Vec<Box<str>> = vec!["a".into(); 2 * MAX_REMOVALS];
        before.insert(1, "x".into());
        let mut object = json!({"metadata": {"finalizers": before}});
        for left in [MAX_REMOVALS + 1, 1] {
            let finalizers = object["metadata"]["finalizers"].clone();
            let finalizers: Vec<Box<str>> = serde_json::from_value(finalizers).expect("a list");
            let operations = remove(&finalizers, "a");
            assert!(operations.len() <= 2 * MAX_REMOVALS);
            object = patched(&object, &operations).expect("applies");
            let finalizers = object["metadata"]["finalizers"].as_array();
            assert_eq!(finalizers.map(Vec::len), Some(left));
        }
        assert_eq!(object, json!({"metadata": {"finalizers": ["x"]}}));
    }

    #[test]
    fn a_list_that_changed_meanwhile_fails_the_removal() {
        let changed = json!({"metadata": {"finalizers": ["new", "a"]}});
        assert!(patched(&changed, &remove(&list(&["a"]), "a")).is_err());
    }
}
