//! Histories in which claims are created again with the names of deleted ones.

use super::{
    Step,
    choose::{number, recoverable},
};

/// Milliseconds until a deleted namespace has usually been removed.
const EMPTYING: std::ops::Range<u64> = 1_500..6_000;

/// Chooses the steps of a history in which a claim is deleted and created again, alone or with its
/// namespace, each with its virtual millisecond.
pub fn rebinding(random: &mut fastrand::Rng, begin: u64) -> Vec<(u64, Step)> {
    let mut steps = vec![(begin, recoverable(random, 1))];
    let mut at = begin;
    for _ in 0..random.u8(2..=3) {
        at += random.u64(1_000..4_000);
        at = delete(random, at, &mut steps);
        at += random.u64(0..3_000);
        let off = random.u32(0..10) == 0;
        steps.push((at, again(1, false, off)));
        if random.u32(0..4) == 0 {
            steps.push((at + random.u64(0..200), again(1, true, false)));
        }
    }
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// Deletes the claim, and returns when it can be created again.
fn delete(random: &mut fastrand::Rng, begin: u64, steps: &mut Vec<(u64, Step)>) -> u64 {
    let (claim, pod, mut at) = (1, 1, begin);
    if random.u32(0..3) == 0 {
        let (finishes, on_node) = (random.bool(), random.bool());
        let user = Step::CreatePod {
            pod,
            claim,
            finishes,
            on_node,
        };
        let force = random.bool();
        steps.push((at, user));
        at += random.u64(0..2_000);
        steps.push((at + random.u64(0..400), Step::DeletePod { pod, force }));
    }
    if random.u32(0..4) == 0 {
        steps.push((at, Step::DeleteNamespace));
        at += random.u64(EMPTYING);
        steps.push((at, Step::CreateNamespace));
        if random.bool() {
            let (to, elsewhere) = (2, false);
            let restored = Step::Undelete {
                claim,
                to,
                elsewhere,
            };
            steps.push((at + random.u64(10..2_000), restored));
        }
        return at + random.u64(10..500);
    }
    steps.push((at, Step::DeleteClaim { claim }));
    let meanwhile = match random.u32(0..12) {
        0 => Step::PurgeVolume { claim },
        1..4 => Step::Undelete {
            claim,
            to: 2,
            elsewhere: random.u32(0..4) == 0,
        },
        4 => Step::DeleteClaim { claim: 2 },
        5 => Step::StripClaim { claim },
        6 => again(number(random), true, false),
        _ => return at,
    };
    steps.push((at + random.u64(0..2_500), meanwhile));
    at
}

fn again(claim: u8, elsewhere: bool, off: bool) -> Step {
    Step::CreateAgain {
        claim,
        elsewhere,
        off,
    }
}
