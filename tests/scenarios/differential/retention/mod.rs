//! The claims of StatefulSets. Under every retention policy and both pod management policies the
//! same operations on both clusters must have the same result, which the [`model`] computes.
//! Intended differences are in [`differences`] and [`scaled_away`].

mod differences;
mod model;
mod scaled_away;

use super::{
    projection::Projection,
    scenario::{
        Object::{self, ConfigMap, Pod, Set},
        Owner,
        Step::{self, Create, DeleteWith, Give, Patch, StaysAsModelled},
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

/// An operation on the set of a story.
#[derive(Clone, Debug)]
enum Deed {
    /// Creates the set with this many replicas, under the story's policy.
    Create(u32),
    Scale(u32),
    /// `Retain` for `Delete` and `Delete` for `Retain`.
    FlipBoth,
    FlipWhenScaled,
    /// Gives the set's first claim another owner.
    Give(Owner),
    /// Removes the owner of a pod.
    OrphanPod(u32),
    Delete(PropagationPolicy),
}

/// For each story the name of its set and the operations, one before each checkpoint.
const STORIES: [(&str, &[Deed]); 9] = [
    (
        "scaled",
        &[
            Deed::Create(2),
            Deed::Scale(1),
            Deed::Scale(2),
            Deed::Scale(0),
            Deed::Delete(Background),
        ],
    ),
    (
        "background",
        &[Deed::Create(2), Deed::Scale(1), Deed::Delete(Background)],
    ),
    ("foreground", &[Deed::Create(1), Deed::Delete(Foreground)]),
    // The second set of that name adopts the pods of the first.
    (
        "orphaned",
        &[
            Deed::Create(1),
            Deed::Delete(Orphan),
            Deed::Create(1),
            Deed::Scale(0),
            Deed::Delete(Foreground),
        ],
    ),
    (
        "adopted",
        &[
            Deed::Create(2),
            Deed::OrphanPod(1),
            Deed::Scale(1),
            Deed::Delete(Background),
        ],
    ),
    (
        "controlled",
        &[
            Deed::Create(1),
            Deed::Give(Owner::Controller("boss")),
            Deed::FlipBoth,
            Deed::Scale(0),
            Deed::Delete(Background),
        ],
    ),
    (
        "befriended",
        &[
            Deed::Create(1),
            Deed::Give(Owner::Bystander("friend")),
            Deed::FlipBoth,
            Deed::Delete(Background),
        ],
    ),
    (
        "flipped-before",
        &[
            Deed::Create(2),
            Deed::FlipBoth,
            Deed::Scale(1),
            Deed::Delete(Foreground),
        ],
    ),
    (
        "flipped-after",
        &[
            Deed::Create(2),
            Deed::Scale(1),
            Deed::FlipWhenScaled,
            Deed::Scale(0),
            Deed::Delete(Background),
        ],
    ),
];

const CHAPTERS: usize = 5;

/// Total number of lines in all checkpoints, so that a lost story is detected.
const LINES: usize = 436;

/// Every story under every policy.
fn stories() -> Vec<(Model, &'static [Deed])> {
    let under = |policy| {
        STORIES
            .iter()
            .map(move |(name, deeds)| (Model::new(name, policy), *deeds))
    };
    POLICIES.into_iter().flat_map(under).collect()
}

/// All stories at once, in one namespace.
async fn play(name: &str, management: &str) -> Result<()> {
    let mut stories = stories();
    let mut steps = vec![
        Create(ConfigMap("boss"), json!({})),
        Create(ConfigMap("friend"), json!({})),
    ];
    let mut lines = 0;
    for chapter in 0..CHAPTERS {
        for (model, deeds) in &mut stories {
            if let Some(deed) = deeds.get(chapter) {
                model.perform(deed);
                steps.push(step(deed, model, management));
            }
        }
        let wanted = stories.iter().flat_map(|(model, _)| model.lines());
        let wanted: Projection = wanted.collect();
        lines += wanted.len();
        steps.push(StaysAsModelled(wanted));
    }
    ensure!(lines == LINES, "the stories have {lines} lines");
    run(name, steps).await
}

/// The step for a deed; `model` has performed the deed already.
fn step(deed: &Deed, model: &Model, management: &str) -> Step {
    let set = Set(model.name);
    match deed {
        Deed::Create(replicas) => create(set, *replicas, model.policy, management),
        Deed::Scale(replicas) => scale(set, *replicas),
        Deed::FlipBoth | Deed::FlipWhenScaled => change_policy(set, model.policy),
        Deed::Give(owner) => Give(model.claim(0), *owner),
        Deed::OrphanPod(ordinal) => Patch(
            Pod(model.pod(*ordinal)),
            json!({"metadata": {"ownerReferences": null}}),
        ),
        Deed::Delete(policy) => DeleteWith(set, policy.clone()),
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
async fn all_stories_with_pods_in_parallel() -> Result<()> {
    play("parallel", "Parallel").await
}

/// The same rows.
#[tokio::test]
async fn all_stories_with_pods_in_order() -> Result<()> {
    play("in-order", "OrderedReady").await
}
