//! Whether the claims of a StatefulSet follow its retention policy, in a cluster at rest.

use super::{ledger::Ledger, trash::annotation};
use crate::json::{
    at, claims_of, deletes_claims, is_deleting, is_owned_by, list, name, namespace, ordinals,
    owners, text, uid,
};
use serde_json::Value;
use std::sync::Arc;
use volume_warden::objects::claim::SCALED_WITH;

/// What the policy of its StatefulSet requires of a claim.
struct Required<'a> {
    /// The uid of the only owner; none if the claim has no owner.
    owner: Option<&'a str>,
    /// Whether the claim has to be deleted.
    deleted: bool,
    /// Whether the claim has to have the marker; none if it may have it.
    marked: Option<bool>,
}

/// Returns in which way the claim does not follow the policy of its StatefulSet.
pub fn at_rest(ledger: &Ledger, claim: &Value) -> Option<String> {
    if is_deleting(claim) {
        return None;
    }
    let set = set_of(ledger, claim)?;
    let required = required(ledger, set, claim)?;
    let found = owners(claim).iter().map(|owner| text(owner, "/uid"));
    let found: Vec<&str> = found.collect();
    let wanted: Vec<&str> = required.owner.into_iter().collect();
    let controlled = owners(claim)
        .iter()
        .all(|owner| owner["controller"] == true);
    let marker = annotation(claim, SCALED_WITH);
    let right_marker = match required.marked {
        Some(true) => marker == Some(uid(set)),
        Some(false) => marker.is_none(),
        None => true,
    };
    let (claim, set) = (name(claim), name(set));
    if required.deleted {
        return Some(format!(
            "the claim {claim} of {set} was not deleted after its pod"
        ));
    }
    if found != wanted || !controlled {
        return Some(format!(
            "the owners of the claim {claim} of {set} are {found:?} instead of {wanted:?}"
        ));
    }
    (!right_marker).then(|| format!("the marker of the claim {claim} of {set} is wrong"))
}

/// The StatefulSet that created the claim, if no pod of another one uses the claim.
fn set_of<'a>(ledger: &'a Ledger, claim: &Value) -> Option<&'a Arc<Value>> {
    let labels = at(claim, "/metadata/labels")?;
    let set = ledger.all("statefulsets").find(|set| {
        namespace(set) == namespace(claim)
            && !is_deleting(set)
            && at(set, "/spec/selector/matchLabels") == Some(labels)
            && ordinal_of(set, claim).is_some()
    })?;
    let is_used_elsewhere = |pod: &Arc<Value>| {
        namespace(pod) == namespace(claim)
            && claims_of(pod).any(|used| used == name(claim))
            && !is_owned_by(pod, set)
    };
    (!ledger.all("pods").any(is_used_elsewhere)).then_some(set)
}

fn ordinal_of(set: &Value, claim: &Value) -> Option<u64> {
    let mut templates = list(set, "/spec/volumeClaimTemplates").iter();
    templates.find_map(|template| {
        let prefix = format!("{}-{}-", name(template), name(set));
        name(claim).strip_prefix(&prefix)?.parse().ok()
    })
}

/// What the policy requires; none if another object than the StatefulSet and the pod owns the
/// claim.
fn required<'a>(ledger: &'a Ledger, set: &'a Value, claim: &Value) -> Option<Required<'a>> {
    let ordinal = ordinal_of(set, claim)?;
    let pod = format!("{}-{ordinal}", name(set));
    let pod = ledger.get("pods", namespace(set), &pod);
    let is_foreign = |owner: &Value| {
        let owner = text(owner, "/uid");
        owner != uid(set) && pod.is_none_or(|pod| owner != uid(pod))
    };
    if owners(claim).iter().any(is_foreign) {
        return None;
    }
    let in_range = ordinals(set).contains(&ordinal);
    let condemned = deletes_claims(set, "whenScaled") && !in_range;
    let is_marked = annotation(claim, SCALED_WITH) == Some(uid(set));
    Some(Required {
        owner: match pod {
            Some(pod) if condemned && is_owned_by(pod, set) => Some(uid(pod)),
            _ => deletes_claims(set, "whenDeleted").then(|| uid(set)),
        },
        deleted: condemned && pod.is_none() && is_marked,
        marked: match deletes_claims(set, "whenScaled") {
            true if condemned => None,
            marked => Some(marked),
        },
    })
}
