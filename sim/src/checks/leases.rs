//! S14: how soon another replica acquires the Lease.

use super::Found;
use crate::{
    json::text,
    plan::{Disruption, Plan},
    replica::LEASE,
};
use volume_warden_apiserver_model::Change;

/// Another replica leads so long after a leader has released the Lease, in milliseconds:
/// `docs/operations/failures.md`.
const RELEASED: u64 = 2_000;
/// Maximum time that a message may take for that.
const FAST: u64 = 100;
/// The Lease of a leader that was killed expires after so many milliseconds: the same page.
const EXPIRED: u64 = 15_000;
/// The pause between two looks of a replica that does not lead: `FOLLOW_PERIOD` in
/// `src/cluster/leader/lease.rs`.
const LOOK: u64 = 1_500;
/// What the milliseconds of the schedule add.
const ROUNDING: u64 = 100;

/// The last write of the Lease.
#[derive(Default)]
pub struct Leases {
    /// When it took effect, and its holder; empty if the Lease was released.
    last: Option<(u64, String)>,
}

impl Leases {
    /// Learns a change of an object, and returns whether no replica wrote the Lease for too long
    /// before it.
    pub fn changed(&mut self, plan: &Plan, now: u64, change: &Change) -> Found {
        if change.plural != "leases" || change.name != LEASE {
            return None;
        }
        let after = change.after.as_ref()?;
        let found = self.late(plan, now);
        self.last = Some((now, text(after, "/spec/holderIdentity").to_owned()));
        found
    }

    /// Returns whether no replica has written the Lease for too long by now.
    pub fn late(&self, plan: &Plan, now: u64) -> Found {
        let (last, holder) = self.last.as_ref()?;
        let limit = match holder.is_empty() {
            true => until_released(plan),
            false => until_expired(plan),
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

/// How long a released Lease may be free, if the plan permits a statement.
fn until_released(plan: &Plan) -> Option<u64> {
    (takes_over(plan) && plan.faults.latency <= FAST).then_some(RELEASED)
}

/// How long a Lease may not be written after the last renewal, if the plan permits a statement. A
/// follower sees that renewal at its next look, counts from there, and acts at a later look.
/// Each look has a request and its answer, and the last one the request of the write.
fn until_expired(plan: &Plan) -> Option<u64> {
    let look = LOOK + 4 * plan.faults.latency;
    takes_over(plan).then_some(EXPIRED + 2 * look + ROUNDING)
}

/// Whether a replica runs all the time beside the one that may end, and nothing delays its requests.
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

    /// Whether the next write is too late so long after one that leaves this holder.
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
