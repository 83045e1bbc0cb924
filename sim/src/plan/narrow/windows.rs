//! The steps, the late watches and the disruptions of each narrow window.

use crate::{
    faults::{Absence, LateWatch, Lateness},
    plan::{Disruption, Plan, choose::SETTLING},
    steps::Step,
};

/// Steps, each with its virtual millisecond.
type Steps = Vec<(u64, Step)>;

fn late(kind: &'static str, from: u64, lateness: Lateness) -> Option<LateWatch> {
    Some(LateWatch {
        kind,
        from,
        lateness,
    })
}

/// The maximum delay of a watch in these histories, in milliseconds.
const LATE: Lateness = Lateness::Most(20_000);

pub(super) fn list_under_way(plan: &mut Plan, random: &mut fastrand::Rng) -> Steps {
    let (begin, used) = (7_000, 2);
    plan.faults.latency = 150;
    plan.faults.late_watch = late("pods", begin, LATE);
    let mut steps: Steps = (used..=7)
        .map(|claim| (SETTLING, new_claim(claim, false)))
        .collect();
    // Each deletion needs a later LIST than the one before, so that nearly always a LIST is in
    // progress.
    for claim in used + 1..=7 {
        let at = begin + u64::from(claim - used) * 100 + random.u64(0..100);
        steps.push((at, Step::DeleteClaim { claim }));
    }
    let held = begin + random.u64(250..800);
    let hold = Disruption::Hold {
        replica: 0,
        milliseconds: random.u64(3_000..5_000),
    };
    plan.disruptions.push((held, hold));
    let user = held + random.u64(0..100);
    steps.push((user, new_pod(1, used, true)));
    let deleted = user + random.u64(900..1_800);
    steps.push((deleted, Step::DeleteClaim { claim: used }));
    steps
}

pub(super) fn missed_deletion(plan: &mut Plan, random: &mut fastrand::Rng) -> Steps {
    let silent = 7_000;
    plan.faults.late_watch = late("pods", silent, Lateness::Silent);
    let compacted = silent + random.u64(2_000..4_500);
    plan.disruptions.push((compacted, Disruption::Compact));
    let (claim, pod, force) = (1, 1, random.u32(0..4) > 0);
    let deleted = silent + random.u64(200..1_800);
    vec![
        (SETTLING, new_claim(claim, random.bool())),
        (SETTLING + 1_000, new_pod(pod, claim, true)),
        (silent - random.u64(200..1_500), Step::DeleteClaim { claim }),
        (deleted, Step::DeletePod { pod, force }),
    ]
}

pub(super) fn unseen_attachment(plan: &mut Plan, random: &mut fastrand::Rng) -> Steps {
    plan.faults.late_watch = late("volumeattachments", 0, LATE);
    let (claim, pod, force) = (1, 1, true);
    let labelled = Step::CreateClaim {
        claim,
        keeps: true,
        labelled: true,
    };
    let deleted = SETTLING + 4_500;
    vec![
        (SETTLING, labelled),
        (SETTLING + 1_500, new_pod(pod, claim, random.bool())),
        (deleted + random.u64(0..400), Step::DeleteClaim { claim }),
        (deleted + random.u64(0..400), Step::DeletePod { pod, force }),
    ]
}

pub(super) fn full_lane(plan: &mut Plan, random: &mut fastrand::Rng) -> Steps {
    plan.start.max_in_flight = 1;
    plan.faults.latency = random.u64(160..=240);
    plan.faults.end = 26_000;
    // The claims of the set are Bound by then.
    let (set, scaled) = (1, random.u64(16_000..18_000));
    // The pod owns its claim by then, and is being terminated for some seconds.
    let deleted = scaled + random.u64(700..1_300);
    let new = Step::CreateSet {
        set,
        replicas: 2,
        deleted: random.bool(),
        scaled: true,
    };
    let scale = |replicas| Step::ScaleSet { set, replicas };
    vec![
        (SETTLING, new),
        (scaled - 3_000, Step::CreateMany),
        (scaled, scale(1)),
        (deleted, Step::DeleteMany),
        (deleted + random.u64(100..1_000), scale(2)),
    ]
}

pub(super) fn unseen_pod(plan: &mut Plan, random: &mut fastrand::Rng) -> Steps {
    let announced = SETTLING + 4_000;
    let second_evaluation = announced + 60_000;
    plan.faults.late_watch = late("pods", announced + 40_000, LATE);
    let mut steps = Steps::new();
    for claim in 1..=2 {
        steps.push((SETTLING, new_claim(claim, false)));
        let hastened = announced + random.u64(0..200);
        steps.push((hastened, Step::HastenExpiry { claim }));
        let user = second_evaluation - random.u64(1_200..8_000);
        steps.push((user, new_pod(claim, claim, random.bool())));
    }
    steps
}

/// The binder does nothing between these virtual milliseconds, so that reservations last.
const UNBOUND: std::ops::Range<u64> = 11_000..20_000;

fn without_binder(plan: &mut Plan) {
    plan.faults.absence = Some(Absence {
        controller: "pv-controller",
        from: UNBOUND.start,
        until: UNBOUND.end,
    });
}

pub(super) fn two_requests(plan: &mut Plan, random: &mut fastrand::Rng) -> Steps {
    without_binder(plan);
    let again = || Step::CreateAgain {
        claim: 1,
        elsewhere: false,
        off: false,
    };
    let created = UNBOUND.start + 500;
    // The other claim is not in the cache of any replica yet.
    let soon = [10, 60, 200][random.usize(..3)];
    let requested = created + random.u64(0..=soon);
    let mut steps = vec![
        (SETTLING, new_claim(1, false)),
        (SETTLING + 4_000, Step::DeleteClaim { claim: 1 }),
        (created, again()),
        (requested, undelete(1, 2)),
    ];
    for _ in 0..3 {
        steps.push((created + random.u64(2_500..8_000), again()));
    }
    steps
}

pub(super) fn deleted_request(plan: &mut Plan, random: &mut fastrand::Rng) -> Steps {
    without_binder(plan);
    let requested = UNBOUND.start + 200;
    let deleted = requested + random.u64(50..4_000);
    vec![
        (SETTLING, new_claim(1, false)),
        (SETTLING + 4_000, Step::DeleteClaim { claim: 1 }),
        (requested, undelete(1, 2)),
        (deleted, Step::DeleteClaim { claim: 2 }),
    ]
}

fn new_claim(claim: u8, keeps: bool) -> Step {
    Step::CreateClaim {
        claim,
        keeps,
        labelled: false,
    }
}

fn new_pod(pod: u8, claim: u8, on_node: bool) -> Step {
    Step::CreatePod {
        pod,
        claim,
        finishes: false,
        on_node,
    }
}

fn undelete(claim: u8, to: u8) -> Step {
    Step::Undelete {
        claim,
        to,
        elsewhere: false,
    }
}
