//! What it cost the API server.

use anyhow::Result;
use std::collections::HashMap;
use volume_warden_controlplane::{AuditLog, Call, Calls, Mark};

const CONTROLLER: &str = "system:serviceaccount:kube-system:statefulset-controller";
const CLAIMS: &str = "persistentvolumeclaims";

/// Calls during a run. Those of Volume Warden if not said otherwise.
pub struct Counts {
    /// Patches and deletions of claims.
    pub claim_writes: usize,
    /// The most of them to one claim.
    pub most_writes: usize,
    /// Live reads of sets.
    pub set_reads: usize,
    /// The most of them of one set.
    pub most_reads: usize,
    /// Live LISTs of pods, later pages not counted.
    pub pod_lists: usize,
    /// Writes to claims by the StatefulSet controller.
    pub controller_claim_writes: usize,
    /// All calls of the StatefulSet controller.
    pub controller: usize,
}

/// Counts what was called since `mark`.
pub fn count(audit: &AuditLog, mark: Mark) -> Result<Counts> {
    let all = audit.since(mark)?;
    let ours = all.by_user_agent("volume-warden/");
    let controller = all.by_user(CONTROLLER);
    let (claim_writes, most_writes) =
        by_name(&ours, |call| call.is_write() && call.resource == CLAIMS);
    let (set_reads, most_reads) = by_name(&ours, |call| {
        call.verb == "get" && call.resource == "statefulsets"
    });
    let to_claims = |call: &&Call| call.resource == CLAIMS;
    Ok(Counts {
        claim_writes,
        most_writes,
        set_reads,
        most_reads,
        pod_lists: ours.lists("pods"),
        controller_claim_writes: controller.writes().iter().filter(to_claims).count(),
        controller: controller.len(),
    })
}

/// How many there are, and how many of the name that has most.
fn by_name(calls: &Calls, wanted: impl Fn(&Call) -> bool) -> (usize, usize) {
    let mut names: HashMap<&str, usize> = HashMap::new();
    for call in calls.iter().filter(|call| wanted(call)) {
        *names.entry(&call.name).or_default() += 1;
    }
    let most = names.values().max().copied().unwrap_or_default();
    (names.values().sum(), most)
}
