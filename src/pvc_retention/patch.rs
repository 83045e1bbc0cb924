//! What the rule wants of a claim, as JSON patch operations.

use super::rule::{Mark, Update};
use crate::objects::{
    Claim,
    claim::SCALED_WITH,
    owner_references,
    patch::{add, remove},
};
use json_patch::PatchOperation;
use serde_json::json;

/// The operations that make the claim what it should be. They hold for the claim as it was seen.
pub fn changes(claim: &Claim, update: &Update) -> Vec<PatchOperation> {
    let mut operations = owner_references::rewrite(&claim.owners, &update.owners);
    operations.extend(match &update.mark {
        Mark::Leave => None,
        Mark::Put(uid) if claim.annotated => Some(add(&["annotations", SCALED_WITH], json!(uid))),
        Mark::Put(uid) => Some(add(&["annotations"], json!({SCALED_WITH: uid}))),
        Mark::Remove => Some(without_mark()),
    });
    operations
}

/// For a claim that has one.
pub fn without_mark() -> PatchOperation {
    remove(&["annotations", SCALED_WITH])
}
