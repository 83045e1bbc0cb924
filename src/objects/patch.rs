//! JSON patch operations: on an object's metadata, and on anything else by its full path.

use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, TestOperation, jsonptr::PointerBuf,
};
use serde_json::Value;

/// `add` at a place below `metadata`.
pub fn add(place: &[&str], value: Value) -> PatchOperation {
    let path = path(place);
    PatchOperation::Add(AddOperation { path, value })
}

/// `remove` at a place below `metadata`.
pub fn remove(place: &[&str]) -> PatchOperation {
    let path = path(place);
    PatchOperation::Remove(RemoveOperation { path })
}

/// `test` of a place below `metadata`.
pub fn test(place: &[&str], value: Value) -> PatchOperation {
    let path = path(place);
    PatchOperation::Test(TestOperation { path, value })
}

/// `remove` at a place in the object.
pub fn remove_at(place: &[&str]) -> PatchOperation {
    let path = PointerBuf::from_tokens(place.iter().copied());
    PatchOperation::Remove(RemoveOperation { path })
}

fn path(place: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(["metadata"].iter().chain(place).copied())
}
