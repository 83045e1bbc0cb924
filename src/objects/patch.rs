//! JSON patch operations on the metadata of an object, or on any path in it.

use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, TestOperation, jsonptr::PointerBuf,
};
use serde_json::Value;

/// Returns an `add` operation at a path below `metadata`.
pub fn add(place: &[&str], value: Value) -> PatchOperation {
    let path = path(place);
    PatchOperation::Add(AddOperation { path, value })
}

/// Returns a `remove` operation at a path below `metadata`.
pub fn remove(place: &[&str]) -> PatchOperation {
    let path = path(place);
    PatchOperation::Remove(RemoveOperation { path })
}

/// Returns an `add` operation at any path in the object. It replaces a value that is there.
pub fn add_at(place: &[&str], value: Value) -> PatchOperation {
    let path = PointerBuf::from_tokens(place.iter().copied());
    PatchOperation::Add(AddOperation { path, value })
}

/// Returns a `test` operation for a path below `metadata`.
pub fn test(place: &[&str], value: Value) -> PatchOperation {
    let path = path(place);
    PatchOperation::Test(TestOperation { path, value })
}

/// Returns a `test` operation for any path in the object.
pub fn test_at(place: &[&str], value: Value) -> PatchOperation {
    let path = PointerBuf::from_tokens(place.iter().copied());
    PatchOperation::Test(TestOperation { path, value })
}

/// Returns a `remove` operation at any path in the object.
pub fn remove_at(place: &[&str]) -> PatchOperation {
    let path = PointerBuf::from_tokens(place.iter().copied());
    PatchOperation::Remove(RemoveOperation { path })
}

fn path(place: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(["metadata"].iter().chain(place).copied())
}
