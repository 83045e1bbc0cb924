//! Owner references, and the JSON patch that changes the list of an object.

use super::patch::{add, remove};
use json_patch::PatchOperation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

const FIELD: &str = "ownerReferences";

/// Returns the owner that is the object's controller, if it has one.
pub fn controller(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// Returns the API group of the owner; empty for the core group. Kinds of different groups may have
/// the same name.
pub fn group(owner: &OwnerReference) -> &str {
    let version = owner.api_version.split_once('/');
    version.map_or("", |(group, _)| group)
}

/// Maximum number of owners that one patch removes: the API server accepts patches with up to
/// 10,000 operations.
const MAX_REMOVALS: usize = 9_000;

/// Returns the patch that turns `before` into `after`, which is a part of `before` followed by new
/// owners. If more than [`MAX_REMOVALS`] owners are to be removed, it removes that many and adds
/// none, because only one owner may be the controller: the object then changes, and is patched
/// again. Owners that are kept are not written again, so none of their fields can be lost. The
/// caller ensures that the list is unchanged, by a `resourceVersion` test or because the object is
/// not stored yet.
pub fn rewrite(before: &[OwnerReference], after: &[OwnerReference]) -> Vec<PatchOperation> {
    let mut kept = 0;
    let mut removed = Vec::new();
    for (index, owner) in before.iter().enumerate() {
        if after.get(kept) == Some(owner) {
            kept += 1;
        } else {
            removed.push(index);
        }
    }
    let all = removed.len() <= MAX_REMOVALS;
    let removed = removed.into_iter().rev().take(MAX_REMOVALS);
    let mut operations: Vec<_> = removed
        .map(|index| remove(&[FIELD, &index.to_string()]))
        .collect();
    if !all {
        return operations;
    }
    let mut exists = !before.is_empty();
    for owner in after.get(kept..).unwrap_or_default() {
        operations.push(if exists {
            add(&[FIELD, "-"], json!(owner))
        } else {
            add(&[FIELD], json!([owner]))
        });
        exists = true;
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(names: &str) -> Vec<OwnerReference> {
        let owner = |name: &str| OwnerReference {
            name: name.to_owned(),
            ..OwnerReference::default()
        };
        names.split_whitespace().map(owner).collect()
    }

    #[test]
    fn the_core_group_is_empty() {
        for (api_version, expected) in [("v1", ""), ("batch/v1", "batch"), ("a.b/v1", "a.b")] {
            let owner = OwnerReference {
                api_version: api_version.to_owned(),
                ..OwnerReference::default()
            };
            assert_eq!(group(&owner), expected);
        }
    }

    #[test]
    fn a_list_becomes_another() {
        for (before, after) in [
            ("", ""),
            ("", "a"),
            ("", "a b"),
            ("a", ""),
            ("a", "a"),
            ("a", "b"),
            ("a b c", "b"),
            ("a b c", "a c d"),
            ("a b c", "d"),
            ("a a b", "a b"),
        ] {
            let mut object = match before {
                "" => json!({"metadata": {}}),
                _ => json!({"metadata": {"ownerReferences": owners(before)}}),
            };
            let patch = rewrite(&owners(before), &owners(after));
            json_patch::patch(&mut object, &patch).expect("applies");
            let list = object["metadata"]["ownerReferences"].take();
            let found: Option<Vec<OwnerReference>> = serde_json::from_value(list).expect("a list");
            assert_eq!(
                found.unwrap_or_default(),
                owners(after),
                "{before} to {after}"
            );
        }
    }

    /// The API server refuses a patch with more than 10,000 operations, and one that adds a
    /// controller while another one is still there.
    #[test]
    fn a_patch_removes_a_limited_number_of_owners_before_it_adds_one() {
        let many = "a ".repeat(MAX_REMOVALS);
        let before = owners(&format!("stays goes {many}"));
        let after = owners("stays new");
        let mut object = json!({"metadata": {"ownerReferences": before}});
        let mut patched = |before: &[OwnerReference]| -> Vec<OwnerReference> {
            json_patch::patch(&mut object, &rewrite(before, &after)).expect("applies");
            serde_json::from_value(object["metadata"]["ownerReferences"].clone()).expect("a list")
        };
        let first = patched(&before);
        assert_eq!(first, owners("stays goes"));
        assert_eq!(patched(&first), after);
    }

    #[test]
    fn who_stays_is_not_written_again() {
        let patch = serde_json::to_string(&rewrite(&owners("stays goes"), &owners("stays new")));
        assert!(!patch.expect("json").contains("stays"));
    }
}
