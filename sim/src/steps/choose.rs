//! Chooses the steps of a history.

use super::Step;

/// The subject of histories in which deletions are undone.
const TRASH: u32 = 7;

/// Chooses steps that concern few objects. A history has one subject, so that its steps interact.
/// With `trash`, the subject of volumes is replaced by undone deletions.
pub fn choose(random: &mut fastrand::Rng, count: usize, trash: bool) -> Vec<Step> {
    let subject = match random.u32(0..7) {
        0 | 1 if trash => TRASH,
        subject => subject,
    };
    let mut steps = vec![match subject {
        TRASH => recoverable(random, 1),
        0 | 1 => new_claim_step(random, 1),
        2 => Step::RequestClaim { pod: 1, claim: 1 },
        3 => new(random, 1, 3),
        4 => new(random, 3, 1),
        5 => new_claim_step(random, 2),
        _ => Step::CreateMany,
    }];
    if subject == 5 {
        steps.push(new_claim_step(random, 1));
    }
    if subject == TRASH {
        let to = number(random);
        let elsewhere = false;
        steps.push(Step::DeleteClaim { claim: 1 });
        steps.push(Step::Undelete {
            claim: 1,
            to,
            elsewhere,
        });
        steps.truncate(count);
    }
    if subject == 6 {
        let scale = |replicas| Step::ScaleSet { set: 1, replicas };
        steps.push(Step::CreateSet {
            set: 1,
            replicas: 2,
            deleted: random.bool(),
            scaled: true,
        });
        steps.extend([scale(1), Step::DeleteMany, scale(2)]);
        steps.truncate(count);
    }

    steps.extend((steps.len()..count).map(|number| one(random, subject, number + 2 >= count)));
    steps
}

/// Milliseconds from the announcement of an expiry to shortly before the last evaluation of the
/// claim.
const LAST_EVALUATION: u64 = 57_000;

/// Chooses the steps of a history in which `claims` claims expire, each with its virtual
/// millisecond. Pods are created around the two evaluations of one of the first two claims, a
/// minute apart, and around its deletion.
pub fn expiring(random: &mut fastrand::Rng, begin: u64, claims: u8) -> Vec<(u64, Step)> {
    let claims = 1..=claims;
    let new = claims
        .clone()
        .map(|claim| (begin, recoverable(random, claim)));
    let mut steps: Vec<(u64, Step)> = new.collect();
    let announced = begin + 4_000;
    for claim in claims {
        steps.push((announced + random.u64(0..200), Step::HastenExpiry { claim }));
    }
    for pod in 1..=random.u8(1..=4) {
        let evaluation = [0, LAST_EVALUATION, LAST_EVALUATION, LAST_EVALUATION][random.usize(..4)];
        let at = announced + evaluation + random.u64(0..8_000);
        let (claim, finishes, on_node) = (number(random), random.bool(), random.bool());
        steps.push((
            at,
            Step::CreatePod {
                pod,
                claim,
                finishes,
                on_node,
            },
        ));
        let force = random.bool();
        if random.bool() {
            steps.push((at + random.u64(0..1_000), Step::DeletePod { pod, force }));
        }
        // A claim that was used meanwhile expires later.
        if random.bool() {
            steps.push((at + random.u64(1_000..4_000), Step::HastenExpiry { claim }));
        }
    }
    let to = number(random);
    let restore = Step::Undelete {
        claim: 1,
        to,
        elsewhere: false,
    };
    steps.push((announced + random.u64(61_000..80_000), restore));
    steps.sort_by_key(|(at, _)| *at);
    steps
}

fn one(random: &mut fastrand::Rng, subject: u32, last: bool) -> Step {
    match random.u32(0..40) {
        0 | 1 => Step::StripClaim {
            claim: random.u8(1..=2),
        },
        2..5 if last => Step::DeleteNamespace,
        _ => match subject {
            0 | 1 => of_volumes(random),
            2 => of_requests(random),
            4 => of_sets_with_ambiguous_claims(random),
            5 => of_two_claims(random),
            TRASH => of_trash(random),
            _ => of_sets(random),
        },
    }
}

/// The number of a claim or pod: mostly 1, so that steps interact.
pub(super) fn number(random: &mut fastrand::Rng) -> u8 {
    if random.u32(0..4) == 0 { 2 } else { 1 }
}

fn of_volumes(random: &mut fastrand::Rng) -> Step {
    let (claim, pod) = (number(random), random.u8(1..=2));
    match random.u32(0..21) {
        18 => Step::HoldClaim { claim },
        19 | 20 => Step::FreeClaim { claim },
        0..4 => Step::CreateClaim {
            claim,
            keeps: random.bool(),
            labelled: random.bool(),
        },
        4..9 => Step::CreatePod {
            pod,
            claim,
            finishes: random.bool(),
            on_node: random.u32(0..4) == 0,
        },
        9..13 => Step::DeleteClaim { claim },
        13 => Step::KeepVolume {
            claim,
            keeps: random.bool(),
        },
        14 | 15 => Step::DeleteVolume { claim },
        _ => Step::DeletePod {
            pod,
            force: random.bool(),
        },
    }
}

fn of_trash(random: &mut fastrand::Rng) -> Step {
    let claim = number(random);
    match random.u32(0..20) {
        0 | 1 => recoverable(random, claim),
        2..8 => Step::DeleteClaim { claim },
        8..14 => Step::Undelete {
            claim,
            to: number(random),
            elsewhere: random.u32(0..6) == 0,
        },
        14 => Step::PurgeVolume { claim },
        15 => Step::KeepVolume {
            claim,
            keeps: random.bool(),
        },
        16 => Step::DeleteVolume { claim },
        17 | 18 => Step::CreatePod {
            pod: 1,
            claim,
            finishes: random.bool(),
            on_node: random.bool(),
        },
        _ => Step::DeletePod {
            pod: 1,
            force: random.bool(),
        },
    }
}

/// Creates a claim of the class with an undelete window.
pub(super) fn recoverable(random: &mut fastrand::Rng, claim: u8) -> Step {
    Step::CreateClaim {
        claim,
        keeps: false,
        labelled: random.u32(0..3) == 0,
    }
}

fn of_requests(random: &mut fastrand::Rng) -> Step {
    let (claim, pod) = (number(random), number(random));
    match random.u32(0..20) {
        0..8 => Step::RequestClaim { pod, claim },
        8..11 => Step::DeleteClaim { claim },
        11 | 12 => Step::CreatePod {
            pod: 3,
            claim,
            finishes: random.bool(),
            on_node: false,
        },
        _ => Step::DeletePod {
            pod,
            force: random.bool(),
        },
    }
}

fn of_sets(random: &mut fastrand::Rng) -> Step {
    match random.u32(0..20) {
        0..3 => new(random, 1, 3),
        3..11 => Step::ScaleSet {
            set: 1,
            replicas: random.u8(0..=3),
        },
        11..14 => Step::ChangePolicy {
            set: 1,
            deleted: random.bool(),
            scaled: random.bool(),
        },
        14 | 15 => {
            let cascade = ["Background", "Foreground", "Orphan"][random.usize(..3)];
            Step::DeleteSet { set: 1, cascade }
        }
        16 => new(random, 2, 1),
        _ => Step::DeletePod {
            pod: random.u8(10..13),
            force: random.bool(),
        },
    }
}

/// Steps in which a pod begins to use one claim while the other is being released.
fn of_two_claims(random: &mut fastrand::Rng) -> Step {
    let number = random.u8(1..=2);
    match random.u32(0..14) {
        0 => new_claim_step(random, number),
        10..14 => Step::StripClaim { claim: number },
        1..5 => Step::CreatePod {
            pod: number,
            claim: number,
            finishes: false,
            on_node: true,
        },
        _ => Step::DeleteClaim { claim: number },
    }
}

fn new_claim_step(random: &mut fastrand::Rng, claim: u8) -> Step {
    Step::CreateClaim {
        claim,
        keeps: random.bool(),
        labelled: random.bool(),
    }
}

/// Steps of the sets 3 and 4, whose claims have the same names.
fn of_sets_with_ambiguous_claims(random: &mut fastrand::Rng) -> Step {
    let set = random.u8(3..=4);
    match random.u32(0..10) {
        0..4 => new(random, set, 1),
        4..6 => Step::ScaleSet {
            set,
            replicas: random.u8(0..=1),
        },
        6 => Step::ChangePolicy {
            set,
            deleted: random.bool(),
            scaled: random.bool(),
        },
        _ => Step::DeleteSet {
            set,
            cascade: "Background",
        },
    }
}

/// A new StatefulSet with at most `most` replicas.
fn new(random: &mut fastrand::Rng, set: u8, most: u8) -> Step {
    Step::CreateSet {
        set,
        replicas: random.u8(1..=most),
        deleted: random.bool(),
        scaled: random.bool(),
    }
}
