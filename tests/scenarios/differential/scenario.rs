//! A scenario is a list of steps, done on both clusters at once, with checkpoints in between.

use super::{
    differences::Difference,
    projection::{Projection, report},
    side::Side,
};
use crate::support::{guarded, in_tree};
use anyhow::{Context, Result, ensure};
use futures::future::try_join;
use serde_json::Value;
use std::collections::BTreeSet;
use volume_warden_controlplane::eventually;

/// An object by the scenario's name for it. A provisioned volume is called `of <claim>`.
#[derive(Clone, Copy, Debug)]
pub enum Object {
    Claim(&'static str),
    Pod(&'static str),
    Volume(&'static str),
}

impl Object {
    pub fn name(self) -> &'static str {
        let (Self::Claim(name) | Self::Pod(name) | Self::Volume(name)) = self;
        name
    }
}

/// Every claim, pod and volume of the scenario, a line for each. What is not listed must not be there.
pub type Lines = &'static [&'static str];

/// What happens next, on both clusters.
#[derive(Debug)]
pub enum Step {
    /// Creates it, with changes to a plain one; a plain pod uses the claim `data`.
    Create(Object, Value),
    /// [`Step::Create`], which may be refused.
    Try(Object, Value),
    Delete(Object),
    Patch(Object, Value),
    PatchPodStatus(&'static str, Value),
    /// Deletes the namespace and waits for its end.
    DeleteNamespace,
    /// A checkpoint: both clusters get there.
    Expect(Lines),
    /// A checkpoint: both clusters get there, and are still there when they have provably worked off everything before.
    Stays(Lines),
    /// Ours refuses a write that in-tree lets pass.
    OnlyOursRefuses(Difference, &'static str),
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
        matches!(
            self,
            Self::Expect(_) | Self::Stays(_) | Self::OnlyOursRefuses(..) | Self::Differ { .. }
        )
    }
}

/// The two clusters, a namespace on each.
struct Stage {
    in_tree: Side,
    ours: Side,
}

impl Stage {
    async fn new(name: &str) -> Result<Self> {
        let (in_tree, ours) = try_join(async { Side::new(in_tree().await?, name).await }, async {
            Side::new(guarded().await?, name).await
        })
        .await?;
        Ok(Self { in_tree, ours })
    }

    async fn perform(&self, step: &Step) -> Result<()> {
        match step {
            Step::Expect(lines) => self.reaches(lines, lines).await,
            Step::Stays(lines) => self.stays(lines, lines).await,
            Step::OnlyOursRefuses(difference, write) => self
                .only_ours_refuses(write)
                .await
                .context(difference.reason()),
            Step::Differ {
                difference,
                in_tree,
                ours,
            } => self.stays(in_tree, ours).await.context(difference.reason()),
            Step::Create(object, changes) => {
                self.both(async |side| side.create(*object, changes).await)
                    .await
            }
            Step::Try(object, changes) => {
                self.both(async |side| side.create_unless_refused(*object, changes).await)
                    .await
            }
            Step::Delete(object) => self.both(async |side| side.delete(*object).await).await,
            Step::Patch(object, patch) => {
                self.both(async |side| side.patch(*object, patch).await)
                    .await
            }
            Step::PatchPodStatus(pod, status) => {
                self.both(async |side| side.patch_pod_status(pod, status).await)
                    .await
            }
            Step::DeleteNamespace => self.both(Side::delete_namespace).await,
        }
    }

    async fn both(&self, act: impl AsyncFn(&Side) -> Result<()>) -> Result<()> {
        let in_tree = async { act(&self.in_tree).await.context("in-tree") };
        let ours = async { act(&self.ours).await.context("ours") };
        try_join(in_tree, ours).await.map(drop)
    }

    async fn reaches(&self, in_tree: Lines, ours: Lines) -> Result<()> {
        eventually("both clusters are as wanted", async || {
            self.is(in_tree, ours).await
        })
        .await
    }

    async fn stays(&self, in_tree: Lines, ours: Lines) -> Result<()> {
        self.reaches(in_tree, ours).await?;
        self.both(Side::canaries).await?;
        self.is(in_tree, ours)
            .await
            .context("it was as wanted and did not stay so")
    }

    async fn is(&self, in_tree: Lines, ours: Lines) -> Result<()> {
        let wanted = (projection(in_tree), projection(ours));
        let found = try_join(self.in_tree.look(), self.ours.look()).await?;
        ensure!(
            found == wanted,
            "{}{}",
            report("in-tree", &wanted.0, &found.0),
            report("ours", &wanted.1, &found.1)
        );
        Ok(())
    }

    async fn only_ours_refuses(&self, write: &str) -> Result<()> {
        eventually(&format!("ours refuses to {write}"), async || {
            let refusals = self.ours.refusals()?;
            ensure!(refusals.contains(write), "refused so far: {refusals:?}");
            Ok(())
        })
        .await
    }

    fn refused_only(&self, wanted: &BTreeSet<String>) -> Result<()> {
        let (in_tree, ours) = (self.in_tree.refusals()?, self.ours.refusals()?);
        ensure!(
            in_tree.is_empty() && ours == *wanted,
            "by in-tree: {in_tree:?}, by ours: {ours:?}, wanted from ours: {wanted:?}"
        );
        Ok(())
    }
}

fn projection(lines: Lines) -> Projection {
    lines.iter().map(|&line| line.to_owned()).collect()
}
