//! Claims whose names may belong to two StatefulSets, in a cluster at rest.

use super::{ledger::Ledger, trash::annotation};
use crate::json::{claims_of, is_deleting, name, namespace, owners, text, uid};
use serde_json::Value;
use volume_warden::objects::claim::SCALED_WITH;

/// Returns which StatefulSet owns or has marked the claim although a pod of another one uses it.
/// The deletion of that StatefulSet, or scaling it down, would delete the claim of the other one's
/// pod.
pub fn at_rest(ledger: &Ledger, claim: &Value) -> Option<String> {
    let mark = annotation(claim, SCALED_WITH);
    if is_deleting(claim) || (mark.is_none() && owners(claim).is_empty()) {
        return None;
    }
    let applies = |set: &str| {
        let owns = |owner: &Value| text(owner, "/uid") == set;
        mark == Some(set) || owners(claim).iter().any(owns)
    };
    let sets = || ledger.all("statefulsets");
    let set = sets().find(|set| !is_deleting(set) && applies(uid(set)))?;
    let is_rival = |owner: &Value| {
        let owner = text(owner, "/uid");
        owner != uid(set) && sets().any(|each| uid(each) == owner)
    };
    let pod = ledger.all("pods").find(|pod| {
        namespace(pod) == namespace(claim)
            && claims_of(pod).any(|used| used == name(claim))
            && owners(pod).iter().any(is_rival)
    })?;
    Some(format!(
        "the policy of {} applies to the claim {}, which the pod {} of another set uses",
        name(set),
        name(claim),
        name(pod)
    ))
}
