//! Histories that each test one narrow time window, in which data is kept only because of one live
//! read, one order of operations or one lane. Randomly chosen steps hit such a window too rarely.

mod windows;

use super::{EXPIRING, Plan, REBINDING};
use crate::{faults::Faults, random::generator, replica::Start};
use windows::{
    deleted_request, full_lane, list_under_way, missed_deletion, two_requests, unseen_attachment,
    unseen_pod,
};

/// The window that a history tests. One of 128 seeds tests each window.
enum Window {
    /// A pod begins to use a claim, and the claim is deleted, while a replica waits for the answer
    /// to a LIST of pods.
    ListUnderWay,
    /// The last pod of a claim is deleted while the watch of pods is silent, and the history is
    /// compacted before the watch begins again.
    MissedDeletion,
    /// A volume is Released while it is attached, and the watch does not show that yet.
    UnseenAttachment,
    /// A StatefulSet is scaled down and up again while many finalizers are to be removed.
    FullLane,
    /// A pod names a claim before the second evaluation of it, and the watch does not show that
    /// yet.
    UnseenPod,
    /// Two claims request a volume, one of them by the name of the deleted claim.
    TwoRequests,
    /// A claim is deleted before it is bound to the volume that is reserved for it.
    DeletedRequest,
}

impl Window {
    fn of(seed: u64) -> Option<Self> {
        match (seed % 16, seed / 16 % 8) {
            (1, 0) => Some(Self::ListUnderWay),
            (1, 1) => Some(Self::MissedDeletion),
            (1, 2) => Some(Self::UnseenAttachment),
            (1, 3) => Some(Self::FullLane),
            (EXPIRING, 1) => Some(Self::UnseenPod),
            (REBINDING, 1) => Some(Self::TwoRequests),
            (REBINDING, 3) => Some(Self::DeletedRequest),
            _ => None,
        }
    }
}

/// Returns the plan of a history that tests a narrow window if the seed selects one; otherwise
/// returns the plan unchanged.
pub(super) fn focused(plan: Plan) -> Plan {
    let Some(window) = Window::of(plan.seed) else {
        return plan;
    };
    let mut random = generator(plan.seed, "narrow");
    let mut plan = undisturbed(plan, &mut random);
    plan.steps = match window {
        Window::ListUnderWay => list_under_way(&mut plan, &mut random),
        Window::MissedDeletion => missed_deletion(&mut plan, &mut random),
        Window::UnseenAttachment => unseen_attachment(&mut plan, &mut random),
        Window::FullLane => full_lane(&mut plan, &mut random),
        Window::UnseenPod => unseen_pod(&mut plan, &mut random),
        Window::TwoRequests => two_requests(&mut plan, &mut random),
        Window::DeletedRequest => deleted_request(&mut plan, &mut random),
    };
    plan.steps.sort_by_key(|(at, _)| *at);
    plan
}

/// One replica that may write everything, in a fast network without faults, and alone: no other
/// controller makes up for what it misses.
fn undisturbed(plan: Plan, random: &mut fastrand::Rng) -> Plan {
    Plan {
        start: Start {
            flags: Vec::new(),
            namespace: None,
            dry_run: false,
            ..plan.start
        },
        replicas: 1,
        clock_skew: 0,
        in_tree_owners: false,
        disruptions: Vec::new(),
        faults: Faults {
            latency: [2, 10, 40][random.usize(..3)],
            watch_lag: [2, 20][random.usize(..2)],
            end: plan.faults.end,
            silent_for_ever: plan.faults.silent_for_ever,
            ..Faults::default()
        },
        ..plan
    }
}
