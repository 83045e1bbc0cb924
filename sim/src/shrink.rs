//! Reduces the plan of a failing history to the parts that the failure needs.

use crate::{checks::Violation, faults::Faults, plan::Plan, world};

/// Returns a plan with as few steps, disruptions and kinds of faults as possible that fails in the
/// same way: the same invariant does not hold, and the message differs at most in names and
/// numbers.
///
/// # Errors
/// When the simulation itself fails.
pub fn shrink(plan: &Plan) -> anyhow::Result<Plan> {
    let Some(first) = world::run(plan, false)?.violations.into_iter().next() else {
        return Ok(plan.clone());
    };
    let mut best = plan.clone();
    loop {
        let mut smaller = None;
        for candidate in candidates(&best) {
            if fails(&candidate, &first)? {
                smaller = Some(candidate);
                break;
            }
        }
        match smaller {
            Some(plan) => best = plan,
            None => return Ok(best),
        }
    }
}

fn fails(plan: &Plan, as_before: &Violation) -> anyhow::Result<bool> {
    let violations = world::run(plan, false)?.violations;
    Ok(violations.iter().any(|each| is_same(each, as_before)))
}

fn is_same(one: &Violation, other: &Violation) -> bool {
    one.invariant == other.invariant && kind(&one.message) == kind(&other.message)
}

/// The words of a message, with a placeholder for each word that contains a digit: objects have
/// other names and uids in another history, and replicas another incarnation.
fn kind(message: &str) -> Vec<&str> {
    let words = message.split(|each: char| each.is_whitespace() || "/:\"".contains(each));
    let has_digit = |word: &str| word.contains(|each: char| each.is_ascii_digit());
    words
        .map(|word| if has_digit(word) { "#" } else { word })
        .collect()
}

/// All plans that lack one part of this plan.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    if plan.in_tree_owners {
        all.push(Plan {
            in_tree_owners: false,
            ..plan.clone()
        });
    }
    for index in 0..plan.disruptions.len() {
        let mut less = plan.clone();
        less.disruptions.remove(index);
        all.push(less);
    }
    for index in 0..plan.steps.len() {
        let mut less = plan.clone();
        less.steps.remove(index);
        all.push(less);
    }
    let kinds: [fn(&mut Faults) -> &mut u32; 6] = [
        |faults| &mut faults.refused,
        |faults| &mut faults.lost,
        |faults| &mut faults.unanswered,
        |faults| &mut faults.held,
        |faults| &mut faults.watch_ends,
        |faults| &mut faults.watch_silent,
    ];
    for kind in kinds {
        let mut less = plan.clone();
        let rate = kind(&mut less.faults);
        if std::mem::take(rate) > 0 {
            all.push(less);
        }
    }
    let others: [fn(&mut Faults) -> bool; 2] = [
        |faults| faults.late_watch.take().is_some(),
        |faults| faults.absence.take().is_some(),
    ];
    for other in others {
        let mut less = plan.clone();
        if other(&mut less.faults) {
            all.push(less);
        }
    }
    if plan.replicas > 1 {
        all.push(Plan {
            replicas: 1,
            ..plan.clone()
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_violation_of_the_same_invariant_is_not_the_same() {
        let violation = |invariant, message: &str| Violation {
            invariant,
            at: 0,
            message: message.to_owned(),
        };
        let first = violation(
            "S8",
            "replica-0.0 sent PATCH /api/v1/persistentvolumes/pv-1 without the Lease",
        );
        for (invariant, message, same) in [
            (
                "S8",
                "replica-1.2 sent PATCH /api/v1/persistentvolumes/pv-20 without the Lease",
                true,
            ),
            (
                "S8",
                "replica-0.0 sent DELETE /api/v1/persistentvolumes/pv-1 without the Lease",
                false,
            ),
            (
                "S8",
                "replica-0.0 sent PATCH /api/v1/persistentvolumes/pv-1 without a precondition",
                false,
            ),
            (
                "S2",
                "replica-0.0 sent PATCH /api/v1/persistentvolumes/pv-1 without the Lease",
                false,
            ),
        ] {
            assert_eq!(
                is_same(&violation(invariant, message), &first),
                same,
                "{message}"
            );
        }
        let (claim, volume) = (
            violation("liveness", "the claim claim-1 has no protection finalizer"),
            violation("liveness", "the volume pvc-1 has no protection finalizer"),
        );
        assert!(!is_same(&claim, &volume));
    }
}
