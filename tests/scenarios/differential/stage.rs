//! The two clusters of a scenario, and what a step does and asks on both.

use super::{
    projection::{Projection, report},
    scenario::{Lines, Step},
    side::Side,
};
use crate::support::{guarded, in_tree};
use anyhow::{Context, Result, ensure};
use futures::future::try_join;
use std::collections::BTreeSet;
use volume_warden_controlplane::eventually;

/// The two clusters, a namespace on each.
pub struct Stage {
    in_tree: Side,
    ours: Side,
}

impl Stage {
    pub async fn new(name: &str) -> Result<Self> {
        let (in_tree, ours) = try_join(async { Side::new(in_tree().await?, name).await }, async {
            Side::new(guarded().await?, name).await
        })
        .await?;
        Ok(Self { in_tree, ours })
    }

    pub async fn perform(&self, step: &Step) -> Result<()> {
        match step {
            Step::Expect(lines) => self.reaches(&projection(lines), &projection(lines)).await,
            Step::Stays(lines) => self.stays(&projection(lines), &projection(lines)).await,
            Step::StaysAsModelled(lines) => self.stays(lines, lines).await,
            Step::OnlyOursRefuses(difference, write) => self
                .only_ours_refuses(write)
                .await
                .context(difference.reason()),
            Step::OnlyOursTells(difference, reason, claim) => self
                .only_ours_tells(reason, claim)
                .await
                .context(difference.reason()),
            Step::BornDifferent {
                difference,
                claim,
                in_tree,
                ours,
            } => self
                .born_different(claim, in_tree, ours)
                .await
                .context(difference.reason()),
            Step::Differ {
                difference,
                in_tree,
                ours,
            } => self
                .stays(&projection(in_tree), &projection(ours))
                .await
                .context(difference.reason()),
            deed => self.both(async |side| side.perform(deed).await).await,
        }
    }

    async fn both(&self, act: impl AsyncFn(&Side) -> Result<()>) -> Result<()> {
        let in_tree = async { act(&self.in_tree).await.context("in-tree") };
        let ours = async { act(&self.ours).await.context("ours") };
        try_join(in_tree, ours).await.map(drop)
    }

    async fn reaches(&self, in_tree: &Projection, ours: &Projection) -> Result<()> {
        eventually("both clusters are as wanted", async || {
            self.is(in_tree, ours).await
        })
        .await
    }

    async fn stays(&self, in_tree: &Projection, ours: &Projection) -> Result<()> {
        self.reaches(in_tree, ours).await?;
        self.both(Side::canaries).await?;
        self.is(in_tree, ours)
            .await
            .context("it was as wanted and did not stay so")
    }

    async fn is(&self, in_tree: &Projection, ours: &Projection) -> Result<()> {
        let found = try_join(self.in_tree.look(), self.ours.look()).await?;
        ensure!(
            (&found.0, &found.1) == (in_tree, ours),
            "{}{}",
            report("in-tree", in_tree, &found.0),
            report("ours", ours, &found.1)
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

    async fn only_ours_tells(&self, reason: &str, claim: &str) -> Result<()> {
        eventually(&format!("ours tells {reason} of {claim}"), async || {
            self.ours.told(reason, claim).await
        })
        .await?;
        self.in_tree.canaries().await?;
        ensure!(
            !self.in_tree.told(reason, claim).await?,
            "in-tree tells {reason} of {claim} too"
        );
        Ok(())
    }

    async fn born_different(&self, claim: &str, in_tree: &str, ours: &str) -> Result<()> {
        let found = try_join(self.in_tree.birth(claim), self.ours.birth(claim)).await?;
        ensure!(
            (&*found.0, &*found.1) == (in_tree, ours),
            "in-tree: {}, wanted {in_tree}; ours: {}, wanted {ours}",
            found.0,
            found.1
        );
        Ok(())
    }

    pub fn refused_only(&self, wanted: &BTreeSet<String>) -> Result<()> {
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
