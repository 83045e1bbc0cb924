//! The metrics of the condition `Unused`: how many claims no pod uses, and their capacity.

use crate::{cluster::Feed, objects::Claim, telemetry::Metrics};
use prometheus_client::metrics::gauge::Gauge;
use std::sync::Arc;

struct UnusedMetrics {
    claims: Gauge,
    bytes: Gauge,
}

/// Registers the metrics, which are computed before each scrape.
pub fn register(metrics: &Metrics, claims: Arc<Feed<Claim>>) {
    let own = metrics.register(|own| UnusedMetrics {
        claims: own.add(
            "unused_claims",
            "Claims whose condition Unused is True: no pod uses them",
        ),
        bytes: own.add(
            "unused_bytes",
            "Capacity of the claims in volume_warden_unused_claims in bytes",
        ),
    });
    metrics.before_scrape(move |_| count(&claims, &own));
}

fn count(claims: &Feed<Claim>, metrics: &UnusedMetrics) {
    let (mut number, mut bytes) = (0, 0.0);
    let claims = claims.read();
    let unused = claims
        .objects()
        .filter(|(_, claim)| claim.unused.is_some_and(|condition| condition.holds));
    for (_, claim) in unused {
        number += 1;
        bytes += claim.rare.unused_bytes;
    }
    drop(claims);
    metrics.claims.set(number);
    // The sum fits into an `i64`: no cluster has that many bytes.
    metrics.bytes.set(bytes as i64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claims_that_no_pod_uses_are_counted_with_their_capacity() {
        let claim = |name, unused: &str, storage| {
            let claim = json!({
                "metadata": {"name": name, "namespace": "ns"},
                "status": {
                    "phase": "Bound", "capacity": {"storage": storage},
                    "conditions": [{"type": "Unused", "status": unused}],
                },
            });
            serde_json::from_value(claim).expect("a claim")
        };
        let claims = vec![
            claim("used", "False", "4Gi"),
            claim("unused", "True", "1Gi"),
            claim("unused-too", "True", "2Ki"),
        ];
        let metrics = Metrics::new();
        register(&metrics, Feed::filled(claims));
        let text = metrics.text();
        for line in ["unused_claims 2", "unused_bytes 1073743872"] {
            let line = format!("volume_warden_{line}");
            assert!(text.lines().any(|each| each == line), "{line}: {text}");
        }
    }
}
