//! S14: how soon another replica acquires the Lease.

use super::Found;
use crate::{
    json::text,
    plan::{Disruption, Plan},
    replica::LEASE,
};
use volume_warden_apiserver_model::Change;

/// Maximum time, in milliseconds, from the release of the Lease until another replica leads.
/// Source: `docs/operations/failures.md`.
const RELEASED: u64 = 2_000;
/// Maximum latency of a message, in milliseconds, with which `RELEASED` applies.
const FAST: u64 = 100;
/// The time, in milliseconds, after which the Lease of a killed leader expires. Source: the same
/// page.
const EXPIRED: u64 = 15_000;
/// The pause, in milliseconds, between two reads of the Lease by a replica that does not lead:
/// `FOLLOW_PERIOD` in `src/cluster/leader/lease.rs`.
const FOLLOW_PERIOD: u64 = 1_500;
/// Tolerance, in milliseconds, for the rounding of times in the schedule.
const ROUNDING: u64 = 100;

/// The last write of the Lease.
#[derive(Default)]
pub struct Leases {
    /// The virtual millisecond of the write, and the holder; empty if the Lease was released.
    last: Option<(u64, String)>,
}

impl Leases {
    /// Records a change of an object. Returns a violation if no replica wrote the Lease for too
    /// long before it.
    pub fn changed(&mut self, plan: &Plan, now: u64, change: &Change) -> Found {
        if change.plural != "leases" || change.name != LEASE {
            return None;
        }
        let after = change.after.as_ref()?;
        let found = self.late(plan, now);
        self.last = Some((now, text(after, "/spec/holderIdentity").to_owned()));
        found
    }

    /// Returns a violation if no replica has written the Lease for too long.
    pub fn late(&self, plan: &Plan, now: u64) -> Found {
        let (last, holder) = self.last.as_ref()?;
        let limit = if holder.is_empty() {
            until_released(plan)
        } else {
            until_expired(plan)
        }?;
        let what = if holder.is_empty() {
            "released"
        } else {
            "last renewed"
        };
        let gap = now.saturating_sub(*last);
        let why =
            || format!("the Lease was {what} {gap} ms ago and not acquired: more than {limit} ms");
        (gap > limit).then(|| ("S14", why()))
    }
}

/// How long a released Lease may be free, if the plan sets a limit.
fn until_released(plan: &Plan) -> Option<u64> {
    (takes_over(plan) && plan.faults.latency <= FAST).then_some(RELEASED)
}

/// Maximum time between the last renewal of a Lease and the next write, if the plan sets a limit. A
/// follower sees the renewal at its next read, counts from there, and writes after a later read.
/// Each read has a request and an answer, and the last one is followed by the request of the write.
fn until_expired(plan: &Plan) -> Option<u64> {
    let pause = FOLLOW_PERIOD + 4 * plan.faults.latency;
    takes_over(plan).then_some(EXPIRED + 2 * pause + ROUNDING)
}

/// Whether, besides the replica that may end, another one always runs and its requests are not
/// delayed.
fn takes_over(plan: &Plan) -> bool {
    let faults = &plan.faults;
    let requests = faults.refused + faults.lost + faults.unanswered + faults.held;
    let ends = |each: &Disruption| {
        matches!(
            each,
            Disruption::CrashAt { .. } | Disruption::Restart { .. }
        )
    };
    let is_late =
        |each: &Disruption| matches!(each, Disruption::Hold { .. } | Disruption::Pause { .. });
    let all = || plan.disruptions.iter().map(|(_, each)| each);
    plan.replicas > 1
        && requests == 0
        && all().filter(|each| ends(each)).count() <= 1
        && !all().any(is_late)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Faults;
    use serde_json::json;
    use std::sync::Arc;

    fn plan(replicas: usize, latency: u64, disruptions: Vec<Disruption>) -> Plan {
        let faults = Faults {
            latency,
            ..Faults::default()
        };
        Plan {
            replicas,
            faults,
            disruptions: disruptions.into_iter().map(|each| (0, each)).collect(),
            ..Plan::new(1)
        }
    }

    fn written(holder: &str) -> Change {
        Change {
            revision: 0,
            plural: "leases",
            namespace: "volume-warden".into(),
            name: LEASE.into(),
            before: None,
            after: Some(Arc::new(json!({"spec": {"holderIdentity": holder}}))),
            user: String::new(),
        }
    }

    /// Whether a write is too late if it follows, after `gap`, a write that set this holder.
    fn is_late(plan: &Plan, holder: &str, gap: u64) -> bool {
        let mut leases = Leases::default();
        assert_eq!(leases.changed(plan, 1_000, &written(holder)), None);
        let at_the_end = leases.late(plan, 1_000 + gap).is_some();
        let found = leases
            .changed(plan, 1_000 + gap, &written("next"))
            .is_some();
        assert_eq!(found, at_the_end);
        found
    }

    #[test]
    fn another_replica_leads_as_soon_as_the_page_says() {
        let calm = plan(2, 10, Vec::new());
        assert!(!is_late(&calm, "", 2_000) && is_late(&calm, "", 2_001));
        assert!(!is_late(&calm, "a", 18_180) && is_late(&calm, "a", 18_181));
        let page = include_str!("../../../docs/operations/failures.md");
        assert!(page.contains("another replica leads within 2 s |"));
        assert!(page.contains("another replica leads when the Lease has expired (15 s) |"));
    }

    #[test]
    fn nothing_is_said_about_replicas_that_are_late_themselves() {
        let restart = || Disruption::Restart { replica: 0 };
        let hold = Disruption::Hold {
            replica: 1,
            milliseconds: 1,
        };
        for plan in [
            plan(1, 10, Vec::new()),
            plan(2, 10, vec![restart(), restart()]),
            plan(2, 10, vec![hold]),
        ] {
            assert!(!is_late(&plan, "", 60_000) && !is_late(&plan, "a", 60_000));
        }
        let slow = plan(2, 300, vec![restart()]);
        assert!(!is_late(&slow, "", 60_000) && is_late(&slow, "a", 60_000));
    }
}
