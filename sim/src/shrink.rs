//! Leaves out what a failing history does not need.

use crate::{checks::Violation, faults::Faults, plan::Plan, world};

/// Returns a plan with as few steps, disruptions and kinds of faults as possible in which the same
/// invariant does not hold.
///
/// # Errors
/// When the simulation itself is wrong.
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
    Ok(violations
        .iter()
        .any(|each| each.invariant == as_before.invariant))
}

/// Plans with one part less.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
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
