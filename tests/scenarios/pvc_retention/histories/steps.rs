//! The steps of a history, generated from its number alone.

use crate::pvc_retention::support::{
    DELETE_DELETE, DELETE_RETAIN, Policy, RETAIN_DELETE, RETAIN_RETAIN,
};

/// The sets of a history.
pub const SETS: [&str; 2] = ["web", "db"];
const LENGTH: usize = 24;
const POLICIES: [Policy; 4] = [RETAIN_RETAIN, RETAIN_DELETE, DELETE_RETAIN, DELETE_DELETE];

/// The fields of a set's spec that decide about its claims.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub start: i32,
    pub replicas: i32,
    pub policy: Policy,
}

impl Spec {
    pub fn wants(self, ordinal: i32) -> bool {
        (self.start..self.start + self.replicas).contains(&ordinal)
    }

    pub fn deletes_with_set(self) -> bool {
        self.policy.0 == "Delete"
    }

    pub fn deletes_when_scaled(self) -> bool {
        self.policy.1 == "Delete"
    }
}

/// How a set is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Background,
    Foreground,
    Orphan,
}

/// One step. Sets are identified by their names.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Create {
        set: &'static str,
        spec: Spec,
        management: &'static str,
    },
    Change {
        set: &'static str,
        spec: Spec,
    },
    DeletePod {
        set: &'static str,
        ordinal: i32,
    },
    DeleteSet {
        set: &'static str,
        how: How,
    },
    /// Kills Volume Warden with SIGKILL.
    Kill,
    /// Starts Volume Warden if it does not run.
    Start,
    /// Pauses the API server for so many seconds.
    Pause {
        seconds: u8,
    },
    /// Volume Warden runs, and no controller has pending work. All claims to delete are gone.
    Settle,
}

/// The steps of a history. The last steps delete all sets and check that all claims to delete are
/// gone.
pub fn steps(number: u64) -> Vec<Step> {
    let mut maker = Maker {
        random: fastrand::Rng::with_seed(number),
        specs: [None; SETS.len()],
    };
    let mut steps = Vec::new();
    while steps.len() < LENGTH {
        maker.add(&mut steps);
    }
    steps.push(Step::Settle);
    for (index, set) in SETS.into_iter().enumerate() {
        if maker.specs[index].is_some() {
            let how = How::Background;
            steps.push(Step::DeleteSet { set, how });
        }
    }
    steps.push(Step::Settle);
    steps
}

struct Maker {
    random: fastrand::Rng,
    /// The specs of the existing sets.
    specs: [Option<Spec>; SETS.len()],
}

impl Maker {
    fn add(&mut self, steps: &mut Vec<Step>) {
        let index = self.random.usize(0..SETS.len());
        let set = SETS[index];
        let Some(spec) = self.specs[index] else {
            let spec = self.any_spec();
            let management = if self.random.bool() {
                "Parallel"
            } else {
                "OrderedReady"
            };
            self.specs[index] = Some(spec);
            return steps.push(Step::Create {
                set,
                spec,
                management,
            });
        };
        match self.random.u8(0..20) {
            0..=6 => steps.push(self.scale(index, spec)),
            7..=9 => steps.push(self.flip(index, spec)),
            10 => {
                let ordinal = spec.start + self.random.i32(0..3);
                steps.push(Step::DeletePod { set, ordinal });
            }
            11..=12 => self.delete(index, steps),
            13..=14 => steps.push(Step::Kill),
            15 => steps.push(Step::Start),
            16 => {
                let seconds = self.random.u8(1..3);
                steps.push(Step::Pause { seconds });
            }
            _ => steps.push(Step::Settle),
        }
    }

    fn any_spec(&mut self) -> Spec {
        Spec {
            start: 0,
            replicas: self.random.i32(0..4),
            policy: self.any_policy(),
        }
    }

    fn any_policy(&mut self) -> Policy {
        POLICIES[self.random.usize(0..POLICIES.len())]
    }

    fn scale(&mut self, index: usize, mut spec: Spec) -> Step {
        if self.random.u8(0..4) == 0 {
            spec.start = self.random.i32(0..3);
        } else {
            spec.replicas = self.random.i32(0..4);
        }
        self.change(index, spec)
    }

    fn flip(&mut self, index: usize, mut spec: Spec) -> Step {
        spec.policy = self.any_policy();
        self.change(index, spec)
    }

    fn change(&mut self, index: usize, spec: Spec) -> Step {
        self.specs[index] = Some(spec);
        Step::Change {
            set: SETS[index],
            spec,
        }
    }

    /// Half of the time a steady state comes first, so that the claims to delete with the set are
    /// known; then Volume Warden need not run.
    fn delete(&mut self, index: usize, steps: &mut Vec<Step>) {
        let set = SETS[index];
        self.specs[index] = None;
        let rests = self.random.bool();
        let how = match self.random.u8(0..4) {
            // Kubernetes' garbage collector may miss a reference written while it orphans.
            0 if rests => How::Orphan,
            1 => How::Foreground,
            _ => How::Background,
        };
        if rests {
            steps.push(Step::Settle);
        }
        if self.random.u8(0..3) == 0 {
            steps.push(Step::Kill);
        }
        steps.push(Step::DeleteSet { set, how });
    }
}
