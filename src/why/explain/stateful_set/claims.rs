//! What happens to the claims of a StatefulSet when it is deleted or scaled down.

use super::SetContext;
use crate::{
    objects::stateful_set::Policy,
    why::{Selection, explain::quote, read::PersistentVolumeClaim},
};
use kube::ResourceExt;

/// Maximum number of claims that the sentence names.
const NAMED: usize = 3;

/// What happens to the claims of the StatefulSet, as a sentence that follows another, without its
/// full stop. Empty if the StatefulSet has no claim templates.
///
/// The garbage collector deletes the claims that the StatefulSet owns, also those that it owns from
/// the time of another policy: kube-controller-manager changes only the owner references of claims
/// whose pod exists.
pub(super) fn fate(one: &SetContext<'_>) -> String {
    let set = one.trimmed;
    if set.templates.is_empty() {
        return String::new();
    }
    let word = |policy| match policy {
        Policy::Retain => "are kept",
        Policy::Delete => "are deleted",
    };
    let policy = set.retention.unwrap_or_default();
    let (deleted, scaled) = (word(policy.when_deleted), word(policy.when_scaled));
    let scaled = format!("{scaled} when their pods are removed by scaling down");
    let by_policy = format!(". Its claims {deleted} when the StatefulSet is deleted, and {scaled}");
    if policy.when_deleted == Policy::Delete {
        return by_policy;
    }
    match owned(one) {
        Some(owned) if owned.is_empty() => by_policy,
        Some(owned) => format!(
            ". {}, although whenDeleted is Retain. Its claims {scaled}",
            deleted_with_it(&owned)
        ),
        None => format!(
            ". Its retention policy is whenDeleted: {} and whenScaled: {}",
            policy.when_deleted.name(),
            policy.when_scaled.name()
        ),
    }
}

/// The claims that the StatefulSet owns; none if the claims could not be read.
fn owned(one: &SetContext<'_>) -> Option<Vec<PersistentVolumeClaim>> {
    let namespace = one.object.namespace_name();
    let claims = one
        .reads
        .list::<PersistentVolumeClaim>(namespace, Selection::default())
        .found()?;
    let owned = claims.iter().filter(|claim| {
        let mut owners = claim.owner_references().iter();
        owners.any(|owner| one.trimmed.uid == owner.uid)
    });
    Some(owned.cloned().collect())
}

fn deleted_with_it(owned: &[PersistentVolumeClaim]) -> String {
    let names: Vec<String> = owned.iter().map(ResourceExt::name_any).collect();
    let names = quote::first(&names, NAMED);
    let (claims, these, their) = match owned.len() {
        1 => ("claim", "this claim is", "its"),
        _ => ("claims", "these claims are", "their"),
    };
    let others = owned.iter().any(|claim| claim.owner_references().len() > 1);
    let others = if others {
        format!(" and {their} other owners")
    } else {
        String::new()
    };
    format!("It owns the {claims} {names}, so {these} deleted with it{others}")
}
