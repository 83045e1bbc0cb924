//! The metrics of pv-protection: volumes that are being deleted but still exist, by cause.

use crate::{
    causes::{Code, volume_code},
    cluster::Feed,
    hashing::HashMap,
    objects::Volume,
    telemetry::{HeldMetrics, Metrics},
};
use std::sync::Arc;

/// Every cause that [`volume_code`] returns. The metric reports a cause without a volume as zero.
const CAUSES: [Code; 3] = [Code::Bound, Code::NotBound, Code::ForeignFinalizer];

/// Registers the metrics of pv-protection, which are computed before each scrape.
pub fn register(metrics: &Metrics, volumes: Arc<Feed<Volume>>) {
    let help = "Volumes that are being deleted but still exist, by cause";
    let held = metrics.register(|own| HeldMetrics::new("volumes_held", help, own));
    metrics.before_scrape(move |_| count(&volumes, &held));
}

fn count(volumes: &Feed<Volume>, metrics: &HeldMetrics) {
    let mut held: HashMap<Code, Vec<i64>> = HashMap::default();
    let store = volumes.read();
    for (_, volume) in store.objects().filter(|(_, volume)| volume.deleting) {
        if let Some(cause) = volume_code(volume) {
            held.entry(cause).or_default().push(volume.deleted);
        }
    }
    drop(store);
    for cause in CAUSES {
        let since = held.remove(&cause).unwrap_or_default();
        metrics.set(cause.name(), &since);
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
    fn held_volumes_are_counted_by_cause() {
        const PROTECTION: &str = "kubernetes.io/pv-protection";
        let metrics = Metrics::new();
        let volumes = Feed::filled(vec![
            volume("living", false, &[PROTECTION], "Bound"),
            volume("unprotected", false, &[], "Bound"),
            volume("bound", true, &[PROTECTION], "Bound"),
            volume("bound-too", true, &[PROTECTION, "other"], "Bound"),
            volume("free", true, &[PROTECTION], "Available"),
            volume("foreign", true, &["other"], "Released"),
            volume("going", true, &[], "Released"),
        ]);
        register(&metrics, volumes);
        let text = metrics.text();
        for (reason, number) in [("Bound", 2), ("NotBound", 1), ("ForeignFinalizer", 1)] {
            let line = format!("volume_warden_volumes_held{{reason=\"{reason}\"}} {number}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
