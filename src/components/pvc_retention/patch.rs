//! Translates the decisions about a claim into JSON patch operations.

use super::rule::{MarkerChange, Update, Verdict};
use crate::{
    cluster::{Action, Basis, Proof},
    objects::{
        Claim,
        claim::SCALED_WITH,
        owner_references,
        patch::{add, remove},
    },
};
use json_patch::PatchOperation;
use serde_json::json;

/// Returns the action that writes `update`. If the update keeps a claim that would be deleted
/// otherwise, the write is urgent, and waits only for other writes that keep data.
pub(super) fn action(claim: &Claim, verdict: &Verdict, update: &Update, proof: Proof) -> Action {
    let basis = Basis::Proof(proof);
    let fresh = changes(claim, update);
    if verdict.rescue(claim).is_none() {
        return Action::own(fresh, basis);
    }
    // If the decision is too old when its turn comes, the writer sends `late`, which only removes.
    // A reference to the StatefulSet is then not added: the StatefulSet may be deleted, and the
    // garbage collector deletes claims whose owner does not exist.
    let late = changes(claim, &update.removals(claim));
    Action::disown(fresh, late, basis)
}

/// The JSON patch operations that update the claim as it was read.
pub fn changes(claim: &Claim, update: &Update) -> Vec<PatchOperation> {
    let mut operations = owner_references::rewrite(&claim.rare.owners, &update.owners);
    operations.extend(match &update.mark {
        MarkerChange::Leave => None,
        MarkerChange::Put(uid) if claim.annotated => {
            Some(add(&["annotations", SCALED_WITH], json!(uid)))
        }
        MarkerChange::Put(uid) => Some(add(&["annotations"], json!({SCALED_WITH: uid}))),
        MarkerChange::Remove => Some(without_mark()),
    });
    operations
}

/// The JSON patch operation that removes the marker from a claim. It fails if the claim has no
/// marker.
pub fn without_mark() -> PatchOperation {
    remove(&["annotations", SCALED_WITH])
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
