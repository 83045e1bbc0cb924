//! Which claims are being deleted and still there, and what holds them, for the metrics.

use super::{
    reasons::{FINISHED_POD, FOREIGN_FINALIZER, IN_USE, UNUSED},
    rule::{FinishedPods, uses},
};
use crate::{
    cluster::{Feed, Store},
    objects::{Claim, ObjectName, Pod, finalizers::Standing},
    telemetry::Metrics,
};
use k8s_openapi::jiff::Timestamp;
use std::{collections::HashMap, sync::Arc};

const REASONS: [&str; 4] = [IN_USE, FINISHED_POD, UNUSED, FOREIGN_FINALIZER];

/// Counts them, when somebody asks.
pub fn count(claims: &Feed<Claim>, pods: &Feed<Pod>, mode: FinishedPods, metrics: &Metrics) {
    let deleted = deleted(claims);
    let pods = pods.read();
    let mut held: HashMap<&str, Vec<i64>> = HashMap::new();
    for (name, claim) in &deleted {
        if let Some(reason) = holder(name, claim, &pods, mode) {
            held.entry(reason).or_default().push(claim.deleted);
        }
    }
    drop(pods);
    let now = Timestamp::now().as_second();
    for reason in REASONS {
        let since = held.remove(reason).unwrap_or_default();
        metrics.claims_held(reason, &since, now);
    }
}

/// No two feeds are ever locked at once.
fn deleted(claims: &Feed<Claim>) -> Vec<(ObjectName, Arc<Claim>)> {
    let claims = claims.read();
    let deleted = claims.objects().filter(|(_, claim)| claim.deleting);
    deleted
        .map(|(name, claim)| (name.clone(), claim.clone()))
        .collect()
}

/// What holds a claim that is being deleted, as far as the watches tell: ours first, since others may wait for us.
pub(super) fn holder(
    name: &ObjectName,
    claim: &Claim,
    pods: &Store<Pod>,
    mode: FinishedPods,
) -> Option<&'static str> {
    if claim.standing() != Standing::DeletionCandidate {
        return (!claim.finalizers.is_empty()).then_some(FOREIGN_FINALIZER);
    }
    let users = pods.referrers(name);
    let mut users = users.filter(|pod| uses(pod, &name.name, claim, mode));
    let Some(first) = users.next() else {
        return Some(UNUSED);
    };
    let all_finished = first.finished && users.all(|pod| pod.finished);
    Some(if all_finished { FINISHED_POD } else { IN_USE })
}
