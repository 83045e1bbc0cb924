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

/// Returns the patch that turns `before` into `after`, which is a part of `before` followed by new
/// owners. Owners that are kept are not written again, so none of their fields can be lost. The
/// caller ensures that the list is unchanged, by a `resourceVersion` test or because the object is
/// not stored yet.
pub fn rewrite(before: &[OwnerReference], after: &[OwnerReference]) -> Vec<PatchOperation> {
    let mut kept = 0;
    let mut operations = Vec::new();
    for (index, owner) in before.iter().enumerate() {
        if after.get(kept) == Some(owner) {
            kept += 1;
        } else {
            operations.insert(0, remove(&[FIELD, &index.to_string()]));
        }
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

    #[test]
    fn who_stays_is_not_written_again() {
        let patch = serde_json::to_string(&rewrite(&owners("stays goes"), &owners("stays new")));
        assert!(!patch.expect("json").contains("stays"));
    }
}
