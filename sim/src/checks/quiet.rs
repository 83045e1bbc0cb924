//! Liveness: what is reached after the faults have ended.

use super::{Violation, ledger::Ledger};
use crate::{
    cluster::Cluster,
    json::{claims_of, has_finalizer, is_deleting, is_finished, name, namespace, text},
};
use serde_json::Value;
use std::sync::Arc;
use volume_warden::objects::finalizers::{PV_PROTECTION, PVC_PROTECTION};

/// Maximum number of writes to one object in a history: a higher number is a loop.
const MOST_WRITES: u32 = 30;

/// Returns what is not as the README promises in a cluster at rest.
pub fn at_rest(cluster: &Cluster) -> Vec<Violation> {
    cluster.checks.with_ledger(|ledger| {
        let start = &ledger.plan.start;
        let mut found: Vec<String> = Vec::new();
        // A process that changes nothing, or only another namespace, promises nothing here.
        if !start.dry_run && start.namespace.is_none() {
            found.extend(
                ledger
                    .all("persistentvolumeclaims")
                    .filter_map(|claim| of_claim(ledger, claim)),
            );
            found.extend(
                ledger
                    .all("persistentvolumes")
                    .filter_map(|volume| of_volume(volume)),
            );
        }
        let many = ledger.writes().filter(|(_, count)| *count > MOST_WRITES);
        let at = cluster.schedule.now();
        let violation = |invariant| {
            move |message| Violation {
                invariant,
                at,
                message,
            }
        };
        let budget = many
            .map(|(uid, count)| format!("{count} writes to {uid}"))
            .map(violation("S11"));
        found
            .into_iter()
            .map(violation("liveness"))
            .chain(budget)
            .collect()
    })
}

fn of_claim(ledger: &Ledger, claim: &Value) -> Option<String> {
    let protected = has_finalizer(claim, PVC_PROTECTION);
    if !is_deleting(claim) {
        return (!protected)
            .then(|| format!("the claim {} has no protection finalizer", name(claim)));
    }
    let uses = |pod: &&Arc<Value>| {
        namespace(pod) == namespace(claim)
            && claims_of(pod).any(|used| used == name(claim))
            && !text(pod, "/spec/nodeName").is_empty()
            && (ledger.finished_hold() || !is_finished(pod))
    };
    let used = ledger.all("pods").any(|pod| uses(&pod));
    (protected && !used)
        .then(|| format!("the claim {} is unused and was not released", name(claim)))
}

fn of_volume(volume: &Value) -> Option<String> {
    let protected = has_finalizer(volume, PV_PROTECTION);
    if !is_deleting(volume) {
        return (!protected)
            .then(|| format!("the volume {} has no protection finalizer", name(volume)));
    }
    let bound = text(volume, "/status/phase") == "Bound";
    (protected && !bound).then(|| {
        format!(
            "the volume {} is not bound and was not released",
            name(volume)
        )
    })
}
