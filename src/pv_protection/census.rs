//! Which volumes are being deleted and still there, and what holds them, for the metrics.

use super::{
    reasons::{BOUND, FOREIGN_FINALIZER, NOT_BOUND},
    rule::{Decision, decide},
};
use crate::{cluster::Feed, objects::Volume, telemetry::Metrics};
use k8s_openapi::jiff::Timestamp;
use std::collections::HashMap;

/// Counts them, when somebody asks.
pub fn count(volumes: &Feed<Volume>, metrics: &Metrics) {
    let mut held: HashMap<&str, Vec<i64>> = HashMap::new();
    for (_, volume) in volumes.read().objects() {
        if let Some(reason) = holder(volume) {
            held.entry(reason).or_default().push(volume.deleted);
        }
    }
    let now = Timestamp::now().as_second();
    for reason in [BOUND, NOT_BOUND, FOREIGN_FINALIZER] {
        let since = held.remove(reason).unwrap_or_default();
        metrics.volumes_held(reason, &since, now);
    }
}

/// Ours first, since others may wait for us.
fn holder(volume: &Volume) -> Option<&'static str> {
    match decide(volume) {
        _ if !volume.deleting => None,
        Decision::Act(_, reason) => Some(reason),
        Decision::Leave(None) => (!volume.finalizers.is_empty()).then_some(FOREIGN_FINALIZER),
        Decision::Leave(reason) => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::volume::VolumeWire;
    use serde_json::json;

    fn volume(name: &str, deleted: bool, finalizers: &[&str], phase: &str) -> VolumeWire {
        let deletion = deleted.then_some("2026-01-01T00:00:00Z");
        let volume = json!({"metadata": {"name": name, "deletionTimestamp": deletion, "finalizers": finalizers},
            "status": {"phase": phase}});
        serde_json::from_value(volume).expect("a volume")
    }

    #[test]
    fn held_volumes_are_told_apart() {
        const OURS: &str = "kubernetes.io/pv-protection";
        let metrics = Metrics::new();
        let volumes = Feed::filled(vec![
            volume("living", false, &[OURS], "Bound"),
            volume("unprotected", false, &[], "Bound"),
            volume("bound", true, &[OURS], "Bound"),
            volume("bound-too", true, &[OURS, "other"], "Bound"),
            volume("free", true, &[OURS], "Available"),
            volume("foreign", true, &["other"], "Released"),
            volume("going", true, &[], "Released"),
        ]);
        count(&volumes, &metrics);
        let text = metrics.text();
        for (reason, number) in [("Bound", 2), ("NotBound", 1), ("ForeignFinalizer", 1)] {
            let line = format!("volume_warden_volumes_held{{reason=\"{reason}\"}} {number}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
