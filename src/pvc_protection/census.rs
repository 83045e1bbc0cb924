//! Which claims are being deleted and still there, and what holds them, for the metrics.

use super::rule::FinishedPods;
use crate::{
    cluster::Feed,
    objects::{Claim, ObjectName, Pod},
    telemetry::Metrics,
    why::{Code, held},
};
use k8s_openapi::jiff::Timestamp;
use std::{collections::HashMap, sync::Arc};

/// All that `held` tells of a claim. Those that hold none are zero.
const CAUSES: [Code; 4] = [
    Code::InUse,
    Code::FinishedPod,
    Code::Unused,
    Code::ForeignFinalizer,
];

/// Counts them, when somebody asks.
pub fn count(claims: &Feed<Claim>, pods: &Feed<Pod>, mode: FinishedPods, metrics: &Metrics) {
    let deleted = deleted(claims);
    let pods = pods.read();
    let mut held: HashMap<Code, Vec<i64>> = HashMap::new();
    for (name, claim) in &deleted {
        let users = pods.referrers(name).map(|pod| &**pod);
        if let Some(cause) = held::claim_code(&name.name, claim, users, mode) {
            held.entry(cause).or_default().push(claim.deleted);
        }
    }
    drop(pods);
    let now = Timestamp::now().as_second();
    for cause in CAUSES {
        let since = held.remove(&cause).unwrap_or_default();
        metrics.claims_held(cause.name(), &since, now);
    }
}

/// No two feeds are ever locked at once.
pub(super) fn deleted(claims: &Feed<Claim>) -> Vec<(ObjectName, Arc<Claim>)> {
    let claims = claims.read();
    let deleted = claims.objects().filter(|(_, claim)| claim.deleting);
    deleted
        .map(|(name, claim)| (name.clone(), claim.clone()))
        .collect()
}
