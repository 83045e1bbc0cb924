//! A scenario is a list of steps, performed on both clusters at once, with checkpoints between
//! them.

use super::{cluster_pair::ClusterPair, differences::Difference, projection::Projection};
use anyhow::{Context, Result};
use kube::api::PropagationPolicy;
use serde_json::Value;
use std::collections::BTreeSet;

/// An object by its name in the scenario. A provisioned volume is called `of <claim>`.
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
    /// The controller and only owner of the claim.
    Controller(&'static str),
    /// The first owner of the claim, but not its controller.
    NonController(&'static str),
}

impl Owner {
    pub fn name(self) -> &'static str {
        let (Self::Controller(name) | Self::NonController(name)) = self;
        name
    }
}

/// One line for each claim, pod, set and volume of the scenario. Objects that are not listed must
/// not exist.
pub type Lines = &'static [&'static str];

/// An operation or a check on both clusters.
#[derive(Debug)]
pub enum Step {
    /// Creates the object from its plain manifest merged with changes; a plain pod uses the claim
    /// `data`.
    Create(Object, Value),
    /// [`Step::Create`], which may be refused.
    TryCreate(Object, Value),
    Delete(Object),
    /// [`Step::Delete`] with a propagation policy for dependents.
    DeleteWith(Object, PropagationPolicy),
    Patch(Object, Value),
    PatchPodStatus(&'static str, Value),
    /// Makes a config map an owner of a claim.
    SetOwner(&'static str, Owner),
    /// Deletes the namespace and waits until it no longer exists.
    DeleteNamespace,
    /// A checkpoint: both clusters reach this state.
    Expect(Lines),
    /// A checkpoint: both clusters reach this state, and still have it once they have provably
    /// processed all earlier events.
    Stays(Lines),
    /// [`Step::Stays`] with lines of a model.
    StaysAsModelled(Projection),
    /// Volume Warden refuses a write that in-tree admits.
    OnlyWardenRefuses(Difference, &'static str),
    /// Only Volume Warden publishes an event with this reason that names this claim.
    OnlyWardenPublishes(Difference, &'static str, &'static str),
    /// The state of a claim at its creation.
    DiffersAtCreation {
        difference: Difference,
        claim: &'static str,
        in_tree: &'static str,
        warden: &'static str,
    },
    /// [`Step::Stays`] where the clusters differ on purpose.
    Differ {
        difference: Difference,
        in_tree: Lines,
        warden: Lines,
    },
}

/// Runs a scenario on both clusters.
pub async fn run(name: &str, steps: impl IntoIterator<Item = Step>) -> Result<()> {
    let clusters = ClusterPair::new(name)
        .await
        .with_context(|| format!("scenario {name}"))?;
    let mut refusals = BTreeSet::new();
    let mut checkpoints = 0;
    for step in steps {
        checkpoints += u32::from(step.is_checkpoint());
        if let Step::OnlyWardenRefuses(_, write) = step {
            refusals.insert(write.to_owned());
        }
        let place = || {
            if step.is_checkpoint() {
                format!("scenario {name}, checkpoint {checkpoints}")
            } else {
                format!("scenario {name}, after checkpoint {checkpoints}, {step:?}")
            }
        };
        clusters.perform(&step).await.with_context(place)?;
    }
    clusters
        .refused_only(&refusals)
        .with_context(|| format!("scenario {name}, refused writes"))
}

impl Step {
    fn is_checkpoint(&self) -> bool {
        match self {
            Self::Create(..)
            | Self::TryCreate(..)
            | Self::Delete(..)
            | Self::DeleteWith(..)
            | Self::Patch(..)
            | Self::PatchPodStatus(..)
            | Self::SetOwner(..)
            | Self::DeleteNamespace => false,
            Self::Expect(_)
            | Self::Stays(_)
            | Self::StaysAsModelled(_)
            | Self::OnlyWardenRefuses(..)
            | Self::OnlyWardenPublishes(..)
            | Self::DiffersAtCreation { .. }
            | Self::Differ { .. } => true,
        }
    }
}
