//! How many claims await their pod, for the metrics.

use super::{known::Known, rule::awaits_pod};
use crate::{objects::ControllerId, telemetry::Metrics};

/// Counts them, when somebody asks.
pub fn count(known: &Known, controller_id: &ControllerId, metrics: &Metrics) {
    let claims = known.claims.read();
    let awaiting = claims.names_where(|claim| awaits_pod(claim, controller_id));
    metrics.awaiting_claims(awaiting.len().try_into().unwrap_or(i64::MAX));
}
