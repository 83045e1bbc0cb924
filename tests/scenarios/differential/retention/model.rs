//! Computes the set, pods and claims that both clusters must have.

use super::{
    DELETE_DELETE, DELETE_RETAIN, Operation, Policy, RETAIN_DELETE, RETAIN_RETAIN, SEQUENCES,
};
use crate::differential::{projection::Projection, scenario::Owner};
use kube::api::PropagationPolicy::Orphan;
use std::collections::BTreeMap;

/// A set with its pods and its present and past claims.
pub struct Model {
    pub name: &'static str,
    pub policy: Policy,
    /// Whether a set of that name exists.
    exists: bool,
    /// Number of running pods, from the first ordinal on.
    pods: u32,
    claims: BTreeMap<u32, Claim>,
    /// Number of claims created so far, by ordinal.
    incarnations: BTreeMap<u32, u32>,
}

/// A claim that exists.
#[derive(Default)]
struct Claim {
    other_owner: Option<Owner>,
}

impl Model {
    /// The name of the set is that of the sequence, with the first letters of the policy.
    pub fn new(sequence: &str, policy: Policy) -> Self {
        let name = format!("{sequence}-{}{}", &policy.0[..1], &policy.1[..1]);
        Self {
            name: leaked(name.to_lowercase()),
            policy,
            exists: false,
            pods: 0,
            claims: BTreeMap::new(),
            incarnations: BTreeMap::new(),
        }
    }

    pub fn claim(&self, ordinal: u32) -> &'static str {
        leaked(format!("data-{}-{ordinal}", self.name))
    }

    pub fn pod(&self, ordinal: u32) -> &'static str {
        leaked(format!("{}-{ordinal}", self.name))
    }

    pub fn perform(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(replicas) => {
                self.exists = true;
                self.scale(*replicas);
            }
            Operation::Scale(replicas) => self.scale(*replicas),
            Operation::FlipBoth => self.policy = (flipped(self.policy.0), flipped(self.policy.1)),
            Operation::FlipWhenScaled => self.policy.1 = flipped(self.policy.1),
            Operation::SetOwner(owner) => {
                self.claims.entry(0).or_default().other_owner = Some(*owner);
            }
            // The set adopts the pod again.
            Operation::OrphanPod(_) => {}
            Operation::Delete(Orphan) => self.exists = false,
            Operation::Delete(_) => {
                let deletes = self.policy.0 == "Delete";
                self.claims
                    .retain(|_, claim| !deletes || claim.has_other_owner());
                self.exists = false;
                self.pods = 0;
            }
        }
    }

    /// Deletes or keeps the claims of the pods that this scale-down deletes. Claims of earlier
    /// scale-downs are not touched.
    fn scale(&mut self, replicas: u32) {
        let deletes = self.policy.1 == "Delete";
        let condemned = replicas..self.pods;
        self.claims.retain(|ordinal, claim| {
            !deletes || !condemned.contains(ordinal) || claim.has_other_owner()
        });
        for ordinal in 0..replicas {
            self.claims.entry(ordinal).or_insert_with(|| {
                *self.incarnations.entry(ordinal).or_default() += 1;
                Claim::default()
            });
        }
        self.pods = replicas;
    }

    pub fn lines(&self) -> Projection {
        let Self { name, pods, .. } = self;
        let owner = format!(" of StatefulSet/{name}");
        let of_set = if self.exists { &*owner } else { "" };
        let set = format!("set {name}: {pods} of {pods} ready");
        let pods = (0..*pods).map(|ordinal| format!("pod {name}-{ordinal}: Running{of_set}"));
        let claims = self.claims.iter().map(|(ordinal, claim)| {
            let incarnation = match self.incarnations[ordinal] {
                1 => "",
                _ => " (2nd)",
            };
            let of_set = if self.policy.0 == "Delete" { of_set } else { "" };
            let owners = match claim.other_owner {
                None => of_set.to_owned(),
                Some(Owner::Controller(map)) => format!(" of ConfigMap/{map}"),
                Some(Owner::NonController(map)) => {
                    format!(" of ConfigMap/{map} (not controller, not blocking){of_set}")
                }
            };
            format!("claim data-{name}-{ordinal}{incarnation}: Pending [kubernetes.io/pvc-protection]{owners}")
        });
        let set = self.exists.then_some(set);
        pods.chain(claims).chain(set).collect()
    }
}

impl Claim {
    /// The garbage collector and Volume Warden keep the claim for its other owner.
    fn has_other_owner(&self) -> bool {
        self.other_owner.is_some()
    }
}

fn flipped(policy: &str) -> &'static str {
    match policy {
        "Retain" => "Delete",
        _ => "Retain",
    }
}

/// Leaks the name: a scenario needs the names of its objects as long as the process runs.
fn leaked(name: String) -> &'static str {
    name.leak()
}

/// Checks the model against results written by hand: the claims after a number of operations.
#[test]
fn the_model_implements_the_retention_policies() {
    let claims = |sequence: &str, policy, count| {
        let operations = SEQUENCES.iter().find(|(name, _)| *name == sequence);
        let (name, operations) = operations.expect("a sequence");
        let mut model = Model::new(name, policy);
        operations[..count]
            .iter()
            .for_each(|operation| model.perform(operation));
        let lines = model.lines().into_iter();
        let claims = lines.filter_map(|line| Some(line.strip_prefix("claim data-")?.to_owned()));
        let short = claims.map(|line| line.replace(": Pending [kubernetes.io/pvc-protection]", ""));
        short.collect::<Vec<_>>()
    };
    for (sequence, policy, count, wanted) in [
        (
            "scaled",
            DELETE_DELETE,
            2,
            vec!["scaled-dd-0 of StatefulSet/scaled-dd"],
        ),
        (
            "scaled",
            RETAIN_DELETE,
            3,
            vec!["scaled-rd-0", "scaled-rd-1 (2nd)"],
        ),
        (
            "scaled",
            RETAIN_RETAIN,
            5,
            vec!["scaled-rr-0", "scaled-rr-1"],
        ),
        ("background", RETAIN_DELETE, 3, vec!["background-rd-0"]),
        ("background", DELETE_RETAIN, 3, vec![]),
        ("foreground", DELETE_DELETE, 2, vec![]),
        ("orphaned", DELETE_DELETE, 2, vec!["orphaned-dd-0"]),
        (
            "controlled",
            RETAIN_RETAIN,
            5,
            vec!["controlled-rr-0 of ConfigMap/boss"],
        ),
        (
            "befriended",
            DELETE_DELETE,
            4,
            vec!["befriended-dd-0 of ConfigMap/friend (not controller, not blocking)"],
        ),
        (
            "flipped-before",
            RETAIN_RETAIN,
            3,
            vec!["flipped-before-rr-0 of StatefulSet/flipped-before-rr"],
        ),
        (
            "flipped-after",
            RETAIN_RETAIN,
            4,
            vec!["flipped-after-rr-1"],
        ),
        ("flipped-after", DELETE_RETAIN, 5, vec![]),
    ] {
        assert_eq!(
            claims(sequence, policy, count),
            wanted,
            "{sequence} under {policy:?}"
        );
    }
}
