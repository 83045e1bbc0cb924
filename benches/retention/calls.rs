//! The calls to the API server.

use anyhow::Result;
use std::collections::HashMap;
use volume_warden_controlplane::{AuditLog, Call, Calls, Mark};

const CONTROLLER: &str = "system:serviceaccount:kube-system:statefulset-controller";
const CLAIMS: &str = "persistentvolumeclaims";

/// Calls during a run; Volume Warden's unless stated otherwise.
pub struct Counts {
    /// Patches and deletions of claims.
    pub claim_writes: usize,
    /// The highest number of patches and deletions of one claim.
    pub most_writes: usize,
    /// Live GETs of sets.
    pub set_reads: usize,
    /// The highest number of live GETs of one set.
    pub most_reads: usize,
    /// Live LISTs of pods, without later pages.
    pub pod_lists: usize,
    /// Writes to claims by the StatefulSet controller.
    pub controller_claim_writes: usize,
    /// All calls of the StatefulSet controller.
    pub controller: usize,
}

/// Counts the calls since `mark`.
pub fn count(audit: &AuditLog, mark: Mark) -> Result<Counts> {
    let all = audit.since(mark)?;
    let own = all.by_user_agent("volume-warden/");
    let controller = all.by_user(CONTROLLER);
    let (claim_writes, most_writes) =
        by_name(&own, |call| call.is_write() && call.resource == CLAIMS);
    let (set_reads, most_reads) = by_name(&own, |call| {
        call.verb == "get" && call.resource == "statefulsets"
    });
    let to_claims = |call: &&Call| call.resource == CLAIMS;
    Ok(Counts {
        claim_writes,
        most_writes,
        set_reads,
        most_reads,
        pod_lists: own.lists("pods"),
        controller_claim_writes: controller.writes().iter().filter(to_claims).count(),
        controller: controller.len(),
    })
}

/// The number of calls, and the highest number for one object name.
fn by_name(calls: &Calls, wanted: impl Fn(&Call) -> bool) -> (usize, usize) {
    let mut names: HashMap<&str, usize> = HashMap::new();
    for call in calls.iter().filter(|call| wanted(call)) {
        *names.entry(&call.name).or_default() += 1;
    }
    let most = names.values().max().copied().unwrap_or_default();
    (names.values().sum(), most)
}
