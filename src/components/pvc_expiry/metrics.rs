//! The metrics of pvc-expiry: claims that may expire.

use super::{
    caches::Caches,
    rule::{Decision, LeaveReason},
};
use crate::{
    hashing::HashMap,
    telemetry::{
        Metrics,
        labels::{Fate, Level},
    },
};

/// The values of the label `fate`. The metric reports 0 for a value that no claim has.
const FATES: [&str; 5] = [USED, WAITING, ANNOUNCED, DUE, CANNOT_EXPIRE];
const USED: &str = "Used";
const WAITING: &str = "Waiting";
const ANNOUNCED: &str = "Announced";
const DUE: &str = "Due";
const CANNOT_EXPIRE: &str = "CannotExpire";

/// Registers the metric `expiry_claims`, which Volume Warden computes before each scrape.
pub fn register(metrics: &Metrics, caches: Caches) {
    let claims: Level<Fate> = metrics.register(|own| {
        own.add(
            "expiry_claims",
            "Claims to which an expiry annotation applies, by fate: Used (named by a pod, or owned \
             by another object), Waiting (not unused for long enough, or named by a workload or \
             custom resource), Announced (deleted within seven days unless a pod uses it), Due \
             (deleted next), CannotExpire (kept, because the data could not be restored or the \
             annotation cannot be read)",
        )
    });
    metrics.before_scrape(move |_| {
        let mut fates: HashMap<&str, i64> = HashMap::default();
        for (name, claim) in caches.candidates() {
            if caches.excludes(&name.namespace) {
                continue;
            }
            if let Some(fate) = fate(&caches.judge(&name, &claim), claim.rare.is_announced()) {
                *fates.entry(fate).or_default() += 1;
            }
        }
        for fate in FATES {
            let number = fates.get(fate).copied().unwrap_or_default();
            claims.get_or_create(&Fate { fate }).set(number);
        }
    });
}

fn fate(decision: &Decision, announced: bool) -> Option<&'static str> {
    match decision {
        Decision::Leave(leave_reason) | Decision::Cancel(Some(leave_reason)) => kept(*leave_reason),
        Decision::Wait(_) if announced => Some(ANNOUNCED),
        Decision::Wait(_) | Decision::Announce(_) | Decision::Cancel(None) => Some(WAITING),
        Decision::Expire => Some(DUE),
    }
}

fn kept(leave_reason: LeaveReason) -> Option<&'static str> {
    match leave_reason {
        LeaveReason::NotRequested | LeaveReason::NotBound => None,
        LeaveReason::Unreadable | LeaveReason::NoWindow(_) => Some(CANNOT_EXPIRE),
        LeaveReason::Used | LeaveReason::Owned => Some(USED),
        LeaveReason::NotObserved => Some(WAITING),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::Clock,
        cluster::{Excluded, Feed, Feeds, LatestTime, Observation},
        objects::expiry::{EXPIRE_UNUSED, EXPIRES_AT},
    };
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// The metrics if this claim, which was announced to expire, is the only one. It has been
    /// unused and watched since 1970. No volume is recorded for the trash.
    fn text(changes: Value) -> String {
        let unused = json!({"type": "Unused", "status": "True",
            "lastTransitionTime": "1970-01-01T00:00:00Z"});
        let mut claim = json!({
            "metadata": {"namespace": "shop", "name": "data", "uid": "c",
                "annotations": {EXPIRE_UNUSED: "30d", EXPIRES_AT: "1971-01-01T00:00:00Z"}},
            "spec": {"volumeName": "pv"},
            "status": {"phase": "Bound", "conditions": [unused]}});
        json_patch::merge(&mut claim, &changes);
        let metrics = Arc::new(Metrics::new());
        let feeds = Feeds {
            claims: Feed::filled(vec![serde_json::from_value(claim).expect("a claim")]),
            ..Feeds::new(&metrics)
        };
        let observation = Arc::new(Observation::default());
        observation.begin(Timestamp::UNIX_EPOCH);
        let excluded = Excluded::by_label(&feeds, None);
        let time = LatestTime::new(Clock::system());
        let caches = Caches::new(&feeds, observation, time, excluded);
        register(&metrics, caches);
        metrics.text()
    }

    /// A claim whose announcement is about to be removed counts by the reason for the removal.
    #[test]
    fn a_claim_whose_announcement_ends_counts_as_without_it() {
        let annotated = |value: &str| json!({"metadata": {"annotations": {EXPIRE_UNUSED: value}}});
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "o"});
        for (changes, expected) in [
            (json!({}), CANNOT_EXPIRE),
            (annotated("soon"), CANNOT_EXPIRE),
            (annotated("876000h"), WAITING),
            (json!({"metadata": {"ownerReferences": [owner]}}), USED),
        ] {
            let text = text(changes.clone());
            let line = format!("expiry_claims{{fate=\"{expected}\"}} 1\n");
            assert!(text.contains(&line), "{changes}: {text}");
        }
    }
}
