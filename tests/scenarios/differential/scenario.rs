//! A scenario is a list of steps, done on both clusters at once, with checkpoints in between.

use super::{differences::Difference, projection::Projection, stage::Stage};
use anyhow::{Context, Result};
use kube::api::PropagationPolicy;
use serde_json::Value;
use std::collections::BTreeSet;

/// An object by the scenario's name for it. A provisioned volume is called `of <claim>`.
#[derive(Clone, Copy, Debug)]
pub enum Object {
    Claim(&'static str),
    ConfigMap(&'static str),
    Pod(&'static str),
    Set(&'static str),
    Volume(&'static str),
}

impl Object {
    pub fn name(self) -> &'static str {
        let (Self::Claim(name)
        | Self::ConfigMap(name)
        | Self::Pod(name)
        | Self::Set(name)
        | Self::Volume(name)) = self;
        name
    }
}

/// A config map that owns a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// As its controller, and nobody else does.
    Controller(&'static str),
    /// Before everybody else, and as no controller.
    Bystander(&'static str),
}

impl Owner {
    pub fn name(self) -> &'static str {
        let (Self::Controller(name) | Self::Bystander(name)) = self;
        name
    }
}

/// Every claim, pod, set and volume of the scenario, a line for each. What is not listed must not be there.
pub type Lines = &'static [&'static str];

/// What happens next, on both clusters.
#[derive(Debug)]
pub enum Step {
    /// Creates it, with changes to a plain one; a plain pod uses the claim `data`.
    Create(Object, Value),
    /// [`Step::Create`], which may be refused.
    Try(Object, Value),
    Delete(Object),
    /// [`Step::Delete`], and says what becomes of its dependents.
    DeleteWith(Object, PropagationPolicy),
    Patch(Object, Value),
    PatchPodStatus(&'static str, Value),
    /// Gives a claim to a config map.
    Give(&'static str, Owner),
    /// Deletes the namespace and waits for its end.
    DeleteNamespace,
    /// A checkpoint: both clusters get there.
    Expect(Lines),
    /// A checkpoint: both clusters get there, and are still there when they have provably worked off everything before.
    Stays(Lines),
    /// [`Step::Stays`] with lines that a model made.
    StaysAsModelled(Projection),
    /// Ours refuses a write that in-tree lets pass.
    OnlyOursRefuses(Difference, &'static str),
    /// Ours tells of it: an event of this reason names this claim. In-tree does not.
    OnlyOursTells(Difference, &'static str, &'static str),
    /// What a claim looked like when it was created.
    BornDifferent {
        difference: Difference,
        claim: &'static str,
        in_tree: &'static str,
        ours: &'static str,
    },
    /// [`Step::Stays`] where the clusters differ on purpose.
    Differ {
        difference: Difference,
        in_tree: Lines,
        ours: Lines,
    },
}

/// Plays a scenario on both clusters.
pub async fn run(name: &str, steps: impl IntoIterator<Item = Step>) -> Result<()> {
    let stage = Stage::new(name)
        .await
        .with_context(|| format!("scenario {name}"))?;
    let mut refusals = BTreeSet::new();
    let mut checkpoints = 0;
    for step in steps {
        checkpoints += u32::from(step.is_checkpoint());
        if let Step::OnlyOursRefuses(_, write) = step {
            refusals.insert(write.to_owned());
        }
        let place = || {
            if step.is_checkpoint() {
                format!("scenario {name}, checkpoint {checkpoints}")
            } else {
                format!("scenario {name}, after checkpoint {checkpoints}, {step:?}")
            }
        };
        stage.perform(&step).await.with_context(place)?;
    }
    stage
        .refused_only(&refusals)
        .with_context(|| format!("scenario {name}, refused writes"))
}

impl Step {
    fn is_checkpoint(&self) -> bool {
        match self {
            Self::Create(..)
            | Self::Try(..)
            | Self::Delete(..)
            | Self::DeleteWith(..)
            | Self::Patch(..)
            | Self::PatchPodStatus(..)
            | Self::Give(..)
            | Self::DeleteNamespace => false,
            Self::Expect(_)
            | Self::Stays(_)
            | Self::StaysAsModelled(_)
            | Self::OnlyOursRefuses(..)
            | Self::OnlyOursTells(..)
            | Self::BornDifferent { .. }
            | Self::Differ { .. } => true,
        }
    }
}
