//! The metrics of pvc-retention: StatefulSets by retention policy, and their claims by fate.

use super::{
    caches::{Caches, judge},
    fate::Fate,
};
use crate::{
    hashing::HashMap,
    objects::stateful_set::{Policy, Retention},
    telemetry::{
        Metrics,
        labels::{Fate as FateLabel, Level, label_sets},
    },
};
use strum::VariantArray as _;

label_sets! {
    PolicyLabels(when_deleted, when_scaled);
}

struct RetentionMetrics {
    sets: Level<PolicyLabels>,
    claims: Level<FateLabel>,
}

/// Registers the metrics of pvc-retention, which are computed before each scrape.
pub fn register(metrics: &Metrics, caches: Caches) {
    let own = metrics.register(|own| RetentionMetrics {
        sets: own.add(
            "statefulsets",
            "StatefulSets with claim templates by persistentVolumeClaimRetentionPolicy",
        ),
        claims: own.add(
            "statefulset_claims",
            "Claims of StatefulSets by fate: what keeps or deletes them",
        ),
    });
    metrics.before_scrape(move |_| count(&caches, &own));
}

fn count(caches: &Caches, metrics: &RetentionMetrics) {
    let sets = caches.all_sets();
    let mut policies: HashMap<Retention, i64> = HashMap::default();
    let mut fates: HashMap<Fate, i64> = HashMap::default();
    for (name, set) in &sets {
        let Some(retention) = set.retention else {
            continue;
        };
        *policies.entry(retention).or_default() += 1;
        let members = caches.members(name);
        let verdicts = judge(name, set, retention, &members, &caches.pods.read());
        for verdict in verdicts {
            *fates.entry(verdict.fate).or_default() += 1;
        }
    }
    for &when_deleted in Policy::VARIANTS {
        for &when_scaled in Policy::VARIANTS {
            let count = policies
                .get(&Retention {
                    when_deleted,
                    when_scaled,
                })
                .copied();
            let labels = PolicyLabels {
                when_deleted: when_deleted.name(),
                when_scaled: when_scaled.name(),
            };
            let sets = metrics.sets.get_or_create(&labels);
            sets.set(count.unwrap_or(0));
        }
    }
    for fate in Fate::VARIANTS {
        let label = FateLabel { fate: fate.name() };
        let claims = metrics.claims.get_or_create(&label);
        claims.set(fates.get(fate).copied().unwrap_or(0));
    }
}
