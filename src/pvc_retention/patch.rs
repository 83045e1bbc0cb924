//! What the rule wants of a claim, as JSON patch operations.

use super::rule::{Mark, Update};
use crate::objects::{Claim, claim::SCALED_WITH, owner_references};
use json_patch::{AddOperation, PatchOperation, RemoveOperation, jsonptr::PointerBuf};
use serde_json::{Value, json};

/// The operations that make the claim what it should be. They hold for the claim as it was seen.
pub fn changes(claim: &Claim, set_uid: &str, update: &Update) -> Vec<PatchOperation> {
    let mut operations = owner_references::rewrite(&claim.owners, &update.owners);
    operations.extend(match update.mark {
        Mark::Leave => None,
        Mark::Put if claim.annotated => Some(add(&["annotations", SCALED_WITH], json!(set_uid))),
        Mark::Put => Some(add(&["annotations"], json!({SCALED_WITH: set_uid}))),
        Mark::Remove => Some(PatchOperation::Remove(RemoveOperation {
            path: path(&["annotations", SCALED_WITH]),
        })),
    });
    operations
}

fn add(tokens: &[&str], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: path(tokens),
        value,
    })
}

fn path(tokens: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(["metadata"].iter().chain(tokens).copied())
}
