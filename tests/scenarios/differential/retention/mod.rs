//! The claims of StatefulSets. Under every retention policy and both pod management policies the
//! same operations on both clusters must have the same result, which the [`model`] computes.
//! Intended differences are in [`differences`] and [`scale_down`].

mod differences;
mod model;
mod scale_down;

use super::{
    projection::Projection,
    scenario::{
        Object::{self, ConfigMap, Pod, Set},
        Owner,
        Step::{self, Create, DeleteWith, Patch, SetOwner, StaysAsModelled},
        run,
    },
};
use anyhow::{Result, ensure};
use kube::api::PropagationPolicy::{self, Background, Foreground, Orphan};
use model::Model;
use serde_json::{Value, json};

/// `whenDeleted` and `whenScaled`, in this order.
type Policy = (&'static str, &'static str);

const RETAIN_RETAIN: Policy = ("Retain", "Retain");
const RETAIN_DELETE: Policy = ("Retain", "Delete");
const DELETE_RETAIN: Policy = ("Delete", "Retain");
const DELETE_DELETE: Policy = ("Delete", "Delete");
const POLICIES: [Policy; 4] = [RETAIN_RETAIN, RETAIN_DELETE, DELETE_RETAIN, DELETE_DELETE];

/// An operation on the StatefulSet of a sequence.
#[derive(Clone, Debug)]
enum Operation {
    /// Creates the set with this many replicas, under the policy of the sequence.
    Create(u32),
    Scale(u32),
    /// Replaces `Retain` by `Delete` and `Delete` by `Retain`.
    FlipBoth,
    FlipWhenScaled,
    /// Sets another owner on the first claim of the set.
    SetOwner(Owner),
    /// Removes the owner reference of the pod with this ordinal.
    OrphanPod(u32),
    Delete(PropagationPolicy),
}

/// For each sequence the name of its set and the operations, one before each checkpoint.
const SEQUENCES: [(&str, &[Operation]); 9] = [
    (
        "scaled",
        &[
            Operation::Create(2),
            Operation::Scale(1),
            Operation::Scale(2),
            Operation::Scale(0),
            Operation::Delete(Background),
        ],
    ),
    (
        "background",
        &[
            Operation::Create(2),
            Operation::Scale(1),
            Operation::Delete(Background),
        ],
    ),
    (
        "foreground",
        &[Operation::Create(1), Operation::Delete(Foreground)],
    ),
    // The second set of that name adopts the pods of the first.
    (
        "orphaned",
        &[
            Operation::Create(1),
            Operation::Delete(Orphan),
            Operation::Create(1),
            Operation::Scale(0),
            Operation::Delete(Foreground),
        ],
    ),
    (
        "adopted",
        &[
            Operation::Create(2),
            Operation::OrphanPod(1),
            Operation::Scale(1),
            Operation::Delete(Background),
        ],
    ),
    (
        "controlled",
        &[
            Operation::Create(1),
            Operation::SetOwner(Owner::Controller("boss")),
            Operation::FlipBoth,
            Operation::Scale(0),
            Operation::Delete(Background),
        ],
    ),
    (
        "befriended",
        &[
            Operation::Create(1),
            Operation::SetOwner(Owner::NonController("friend")),
            Operation::FlipBoth,
            Operation::Delete(Background),
        ],
    ),
    (
        "flipped-before",
        &[
            Operation::Create(2),
            Operation::FlipBoth,
            Operation::Scale(1),
            Operation::Delete(Foreground),
        ],
    ),
    (
        "flipped-after",
        &[
            Operation::Create(2),
            Operation::Scale(1),
            Operation::FlipWhenScaled,
            Operation::Scale(0),
            Operation::Delete(Background),
        ],
    ),
];

/// Number of operations in the longest sequence.
const MAX_OPERATIONS: usize = 5;

/// Total number of lines in all checkpoints, so that a missing sequence is detected.
const LINES: usize = 436;

/// Every sequence under every policy.
fn sequences() -> Vec<(Model, &'static [Operation])> {
    let under = |policy| {
        SEQUENCES
            .iter()
            .map(move |(name, operations)| (Model::new(name, policy), *operations))
    };
    POLICIES.into_iter().flat_map(under).collect()
}

/// Runs all sequences at once, in one namespace.
async fn run_all(name: &str, management: &str) -> Result<()> {
    let mut sequences = sequences();
    let mut steps = vec![
        Create(ConfigMap("boss"), json!({})),
        Create(ConfigMap("friend"), json!({})),
    ];
    let mut lines = 0;
    for index in 0..MAX_OPERATIONS {
        for (model, operations) in &mut sequences {
            if let Some(operation) = operations.get(index) {
                model.perform(operation);
                steps.push(step(operation, model, management));
            }
        }
        let wanted = sequences.iter().flat_map(|(model, _)| model.lines());
        let wanted: Projection = wanted.collect();
        lines += wanted.len();
        steps.push(StaysAsModelled(wanted));
    }
    ensure!(lines == LINES, "the sequences have {lines} lines");
    run(name, steps).await
}

/// The step for an operation, which `model` has performed already.
fn step(operation: &Operation, model: &Model, management: &str) -> Step {
    let set = Set(model.name);
    match operation {
        Operation::Create(replicas) => create(set, *replicas, model.policy, management),
        Operation::Scale(replicas) => scale(set, *replicas),
        Operation::FlipBoth | Operation::FlipWhenScaled => change_policy(set, model.policy),
        Operation::SetOwner(owner) => SetOwner(model.claim(0), *owner),
        Operation::OrphanPod(ordinal) => Patch(
            Pod(model.pod(*ordinal)),
            json!({"metadata": {"ownerReferences": null}}),
        ),
        Operation::Delete(policy) => DeleteWith(set, policy.clone()),
    }
}

fn create(set: Object, replicas: u32, policy: Policy, management: &str) -> Step {
    let spec = json!({
        "replicas": replicas,
        "podManagementPolicy": management,
        "persistentVolumeClaimRetentionPolicy": retention(policy),
    });
    Create(set, json!({"spec": spec}))
}

fn scale(set: Object, replicas: u32) -> Step {
    Patch(set, json!({"spec": {"replicas": replicas}}))
}

fn change_policy(set: Object, policy: Policy) -> Step {
    Patch(
        set,
        json!({"spec": {"persistentVolumeClaimRetentionPolicy": retention(policy)}}),
    )
}

fn retention((when_deleted, when_scaled): Policy) -> Value {
    json!({"whenDeleted": when_deleted, "whenScaled": when_scaled})
}

/// STS-32..35, 38, 40, 41, 115..118.
#[tokio::test]
async fn all_sequences_with_pods_in_parallel() -> Result<()> {
    run_all("parallel", "Parallel").await
}

/// The same cases, with the other pod management policy.
#[tokio::test]
async fn all_sequences_with_pods_in_order() -> Result<()> {
    run_all("in-order", "OrderedReady").await
}
